"""Run jobs of 1 to 3 seconds on 8 GPUs with `amd-ctk run --wait`, and measure their order, makespan and idle GPUs.

Example: sudo chrt -f 5 python benchmarks/queue_of_jobs.py 200

Lengths come from a fixed seed. Each job starts when the previous one has its ticket, and all GPUs are reserved until
the last job waits. The program then prints the makespan from that moment, its ratio to the least that the lengths
allow, whether jobs got GPUs in the order of their tickets, and how long a GPU was idle between two jobs.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from itertools import pairwise
from pathlib import Path

from amd_gpu_tracker import Tracker
from amdgpu_simulator import build_host

SEED = 18
GPUS = 8
POLL_SECONDS = 0.05


class Watch(threading.Thread):
    """Records when each job got which GPU."""

    def __init__(self, leases: Path) -> None:
        super().__init__(daemon=True)
        self.leases = leases
        self.got: dict[str, tuple[float, str]] = {}

    def run(self) -> None:
        """Poll the leases."""
        while True:
            self.look()
            time.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Record new leases."""
        for path in self.leases.glob("*.json"):
            if path.name not in self.got:
                try:
                    lease = json.loads(path.read_bytes())
                except FileNotFoundError:
                    continue
                self.got[path.name] = (lease["since"], lease["gpus"][0])


def main(count: int) -> None:
    """Run `count` jobs and print the figures."""
    lengths = [random.Random(SEED + number).uniform(1, 3) for number in range(count)]
    with tempfile.TemporaryDirectory() as made:
        host = build_host(Path(made, "host"), "mi210-8", bare=True)
        Tracker(host).enable()
        Tracker(host).set_accessibility("all", exclusive=True)
        run_directory = Path(host.path("/run/amd-container-toolkit"))
        watch = Watch(run_directory / "leases")
        watch.start()
        submitting = time.time()
        with Tracker(host).reserve("all", name="before-all"):
            jobs = [start(host.root, made, number, length, run_directory) for number, length in enumerate(lengths)]
            began = time.time()
        codes = [job.wait() for job in jobs]
        watch.look()
        ended = {number: Path(made, f"job-{number:03}").stat().st_mtime for number in range(count)}
        report(lengths, watch.got, ended, began, began - submitting, codes)


def start(root: str, made: str, number: int, length: float, run_directory: Path) -> subprocess.Popen[bytes]:
    """Start a job, and return it when it has its ticket or its GPU."""
    name = f"job-{number:03}"
    program = os.path.join(os.path.dirname(sys.executable), "amd-ctk")
    words = [program, "run", "--gpus=free:1", "--wait", f"--name={name}", "--"]
    job = subprocess.Popen(
        [*words, "sh", "-c", f"sleep {length:.3f}; : > {made}/{name}"],
        env={**os.environ, "AMD_CTK_HOST_ROOT": root},
        stderr=subprocess.DEVNULL,
    )
    lease = run_directory / "leases" / f"{name}@.json"
    while not (lease.exists() or list((run_directory / "waiting").glob(f"*-{name}.json")) or job.poll() is not None):
        time.sleep(0.005)
    return job


def report(
    lengths: list[float],
    got: dict[str, tuple[float, str]],
    ended: dict[int, float],
    began: float,
    submitting: float,
    codes: list[int],
) -> None:
    """Print the figures."""
    count = len(lengths)
    starts = {number: got[f"job-{number:03}@.json"] for number in range(count)}
    in_order = all(starts[number][0] <= starts[number + 1][0] for number in range(count - 1))
    idle = []
    for gpu in {gpu for _, gpu in starts.values()}:
        mine = sorted((since, number) for number, (since, where) in starts.items() if where == gpu)
        for (_, before), (since, _) in pairwise(mine):
            idle.append(since - ended[before])
    makespan = max(ended.values()) - began
    ideal = list_schedule(lengths)
    idle.sort()
    print(f"jobs: {count}, failed: {sum(code != 0 for code in codes)}, in the order of tickets: {in_order}")
    print(f"taking the tickets: {submitting:.1f} s; then makespan: {makespan:.2f} s; least: {ideal:.2f} s")
    print(f"ratio: {makespan / ideal:.3f}; GPU idle between jobs: median {idle[len(idle) // 2] * 1000:.0f} ms")
    print(f"95 of 100 below {idle[len(idle) * 95 // 100] * 1000:.0f} ms; longest {idle[-1] * 1000:.0f} ms")


def list_schedule(lengths: list[float]) -> float:
    """Return how long the jobs take in their order, each on the GPU that is free first."""
    free = [0.0] * GPUS
    for length in lengths:
        first = free.index(min(free))
        free[first] += length
    return max(free)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
