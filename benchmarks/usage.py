"""Compare a look at the usage of GPUs with a bare walk over the same descriptors: `usage.py [PROCESSES] [DESCRIPTORS]`.

This starts that many processes with that many open files. The walk lists the open files of each process and reads each
link. The look also reads KFD and the GPUs of a simulated host, and joins them with the tracker's leases. Both run in
turn, and only ratios of neighbours are meaningful. Run it alone: `chrt -f 10 python benchmarks/usage.py`.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.watch.usage.reader import UsageReader
from amdgpu_simulator import build_host

ROUNDS = 41
# A simulated host takes this for its own /proc, so all of it is read.
PROC = "/proc/"


def main(words: list[str]) -> None:
    """Start the processes and print the time of a look relative to a walk."""
    processes, descriptors = map(int, words or ("1000", "20"))
    with TemporaryDirectory() as directory, running(processes, descriptors):
        host = build_host(f"{directory}/host", "mi210-8", bare=True)
        Tracker(host).enable()
        reader = UsageReader(State(host), Processes(PROC), LibraryLock)
        pairs = [(seconds(walk), seconds(reader.read)) for _ in range(ROUNDS)]
    ratio = statistics.median(look / bare for bare, look in pairs)
    bare, look = (statistics.median(each) * 1000 for each in zip(*pairs, strict=True))
    print(f"{processes} processes with {descriptors} descriptors, {ROUNDS} pairs")
    print(f"walk {bare:.1f} ms, look {look:.1f} ms: {ratio:.2f}x")


def walk() -> None:
    """Read the links of all descriptors of all processes."""
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                for descriptor in os.listdir(f"/proc/{name}/fd"):
                    os.readlink(f"/proc/{name}/fd/{descriptor}")
            except OSError:
                continue


def seconds(action: Callable[[], object]) -> float:
    """Return the seconds that an action takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


@contextmanager
def running(processes: int, descriptors: int) -> Iterator[None]:
    """Run processes with this many open files."""
    children = [start(descriptors) for _ in range(processes)]
    try:
        yield
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
        for child in children:
            os.waitpid(child, 0)


def start(descriptors: int) -> int:
    """Start a process that opens this many descriptors and waits."""
    child = os.fork()
    if child:
        return child
    os.closerange(0, 64)
    for _ in range(descriptors):
        os.open("/dev/null", os.O_RDONLY)
    signal.pause()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
