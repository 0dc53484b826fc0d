"""200 jobs of 1 to 3 seconds on eight GPUs: `amd-ctk run --wait` takes no longer than Slurm, on one machine.

Both have the same jobs in the same order, keep their files in memory, and have all jobs in their queue before the first
one begins. Jobs only sleep, so that the processor does not decide. `nox -s slurm` writes the table of
docs/how-to/any-free-gpu.md.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from amdgpu_discovery.value import Value
from support.marked_table import write_table
from support.slurm_box import SlurmBox

pytestmark = [pytest.mark.e2e, pytest.mark.slurm]

JOBS = int(os.environ.get("AMD_MAKESPAN_JOBS", "200"))
PAGE = os.environ.get("AMD_MAKESPAN_PAGE", "")
SEED = 18
GPUS = 8
MOST = 1.05
# In seconds, on a machine that does much else.
TIMEOUT = 1200

# $1: number of the job, $2: how long it takes.
JOB = """\
#!/bin/sh
echo "${AMD_VISIBLE_DEVICES:-$SLURM_JOB_GPUS}" >/run/jobs/began-$1
sleep "$2"
: >/run/jobs/ended-$1
"""
SLURM = """
set -e
sbatch --quiet --gres=gpu:8 --chdir=/ --output=/dev/null --job-name=before --wrap='sleep 3600'
until [ -n "$(squeue --noheader --states=RUNNING --name=before)" ]; do sleep 0.1; done
while read -r number seconds; do
  sbatch --quiet --gres=gpu:1 --chdir=/ --output=/dev/null /run/jobs/job "$number" "$seconds"
done </run/jobs/list
scancel --name=before
"""
AMD_CTK = """
set -e
cd /run/amd-container-toolkit
amd-ctk run --gpus=all --name=before -- sleep 3600 &
before=$!
until [ -e leases/before@.json ]; do sleep 0.1; done
while read -r number seconds; do
  said=/run/jobs/said-$number
  amd-ctk run --gpus=free:1 --wait --name="job-$number" -- /run/jobs/job "$number" "$seconds" </dev/null 2>"$said" &
  until [ -e waiting/*-"job-$number.json" ]; do sleep 0.01; done
done </run/jobs/list
kill $before
wait
"""


class Outcome(Value):
    """When each job began and ended, in seconds, and on which GPU; by its place in the queue."""

    began: tuple[float, ...]
    ended: tuple[float, ...]
    gpus: tuple[str, ...]

    @property
    def makespan(self) -> float:
        """Return the time from the begin of the first job to the end of the last one."""
        return max(self.ended) - min(self.began)

    def idle(self) -> list[float]:
        """Return how long GPUs had no job between two, the shortest first."""
        idle = []
        for gpu in set(self.gpus):
            jobs = sorted(job for job in zip(self.began, self.ended, self.gpus, strict=True) if job[2] == gpu)
            idle += [after[0] - before[1] for before, after in pairwise(jobs)]
        return sorted(idle)


@pytest.fixture(scope="module")
def box(make_node: Callable[..., SlurmBox]) -> Iterator[SlurmBox]:
    """Return a cluster of one node with eight MI210, all of which are exclusive for the GPU Tracker too."""
    box = make_node("trixie", "mi210-8")
    box.configure(box.gres)
    box.start_slurm()
    box.wait_until("srun", "--quiet", "--gres=gpu:8", "--immediate=5", "/bin/true")
    box("amd-ctk", "gpu-tracker", "enable")
    box("amd-ctk", "gpu-tracker", "all", "exclusive")
    return box


def run_jobs(box: SlurmBox, lengths: list[float], submit: str) -> Outcome:
    """Submit the jobs by a script, and return what became of them when the last one has ended."""
    directory = Path(f"/proc/{box.pid}/root/run/jobs")
    box("rm", "-rf", "/run/jobs")
    box.write("/run/jobs/job", JOB.encode())
    box("chmod", "755", "/run/jobs/job")
    box.write("/run/jobs/list", "".join(f"{n} {length:.3f}\n" for n, length in enumerate(lengths)).encode())
    box.start("sh", "-c", submit)
    until = time.monotonic() + TIMEOUT
    while len(list(directory.glob("ended-*"))) < len(lengths):
        said = [box.share / "sh.log", *directory.glob("said-*")]
        assert time.monotonic() < until, [path.read_text() for path in said]
        time.sleep(1)
    began = [directory / f"began-{number}" for number in range(len(lengths))]
    return Outcome(
        began=tuple(path.stat().st_mtime for path in began),
        ended=tuple((directory / f"ended-{number}").stat().st_mtime for number in range(len(lengths))),
        gpus=tuple(path.read_text().strip() for path in began),
    )


def list_schedule(lengths: list[float]) -> float:
    """Return how long the jobs take in their order, each on the GPU that is free first."""
    free = [0.0] * GPUS
    for length in lengths:
        free[free.index(min(free))] += length
    return max(free)


@pytest.mark.timeout(3 * TIMEOUT)
def test_the_makespan_of_200_jobs_is_that_of_slurm(box: SlurmBox) -> None:
    draw = random.Random(SEED)
    lengths = [draw.uniform(1, 3) for _ in range(JOBS)]

    slurm = run_jobs(box, lengths, SLURM)
    toolkit = run_jobs(box, lengths, AMD_CTK)

    for outcome in (slurm, toolkit):
        assert sorted(set(outcome.gpus)) == list("01234567")
        # No GPU had two jobs at once; the clock of files ticks every 4 ms.
        assert outcome.idle()[0] >= -0.004
    assert toolkit.makespan <= MOST * slurm.makespan
    if PAGE:
        version = box.version()
        rows = [("", "`amd-ctk run --wait`", f"Slurm {version}"), *_rows(toolkit, slurm, list_schedule(lengths))]
        write_table(PAGE, "makespan", rows)


def _rows(toolkit: Outcome, slurm: Outcome, least: float) -> Iterator[tuple[str, str, str]]:
    both = (toolkit, slurm)
    yield "date", *[time.strftime("%Y-%m-%d", time.gmtime())] * 2
    yield "jobs, of which failed", *[f"{len(each.began)}, 0" for each in both]
    yield "makespan", *[f"{each.makespan:.2f} s" for each in both]
    yield f"of the {least:.2f} s that the lengths allow at least", *[f"{each.makespan / least:.3f}x" for each in both]
    yield "of Slurm's", f"{toolkit.makespan / slurm.makespan:.3f}x", "1x"
    idle = [each.idle() for each in both]
    yield "GPU idle between two jobs: median", *[f"{each[len(each) // 2] * 1000:.0f} ms" for each in idle]
    yield "95 of 100 below", *[f"{each[len(each) * 95 // 100] * 1000:.0f} ms" for each in idle]
    yield "longest", *[f"{each[-1] * 1000:.0f} ms" for each in idle]
