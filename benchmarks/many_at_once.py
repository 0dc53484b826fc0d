"""Start many containers together, and compare with as many bare interpreters that take the same lock."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence

from measure import QUIET, Program

from amdgpu_discovery.host import Host

# The minimum for a start: an interpreter that takes the lock once.
TAKES_THE_LOCK = """
import fcntl, posix, sys
fcntl.flock(posix.open(sys.argv[1], posix.O_RDWR | posix.O_CREAT, 0o600), fcntl.LOCK_EX)
"""


class Throughput:
    """Creates of containers, and the bare interpreters to compare with."""

    def __init__(self, creates: Sequence[Program], python: str, host: Host) -> None:
        self.creates = creates
        lock = host.path("/run/amd-container-toolkit/gpu-tracker.lock")
        words = [python, "-I", "-S", "-c", TAKES_THE_LOCK, lock]
        self.bare = [Program(words, {"PATH": "/usr/bin:/bin"}) for _ in creates]

    def ratio(self, rounds: int) -> float:
        """Return how many containers start in the time of one bare interpreter, as the median of rounds."""
        return statistics.median(together(self.bare) / together(self.creates) for _ in range(rounds))


def together(programs: Sequence[Program]) -> float:
    """Run programs at once; return the seconds until the last has ended. If one fails, the benchmark ends."""
    for program in programs:
        program.prepare()
    begin = time.perf_counter()
    children = [os.posix_spawn(p.words[0], p.words, p.environment, file_actions=QUIET) for p in programs]
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    elapsed = time.perf_counter() - begin
    if failed:
        raise SystemExit(f"{len(failed)} of {len(programs)} failed: {subprocess.list2cmdline(programs[0].words)}")
    return elapsed
