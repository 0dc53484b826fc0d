"""What Slurm knows about the GPUs of a node, and containers that outlive their jobs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from amd_ctk.slurm.status import SlurmStatus, read_status
from amd_device_spec.slurm.conf import GRES_CONF, SLURM_CONF, find_conf
from amd_device_spec.slurm.grammar import RefusedLine
from amd_device_spec.slurm.job_gpus import read_device_files
from amd_device_spec.slurm_job import JOB_ID
from amd_gpu_tracker import Processes
from amdgpu_discovery.command_line.programs import ask
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# Lists the number and state of each job. Slurm knows a job for some minutes after its end.
JOBS = ("squeue", "--noheader", "--states=all", "--format=%A %T")
OVER = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED TIMEOUT".split()  # noqa: SIM905
)
ENDING = "COMPLETING"
LONGEST_JOB_NUMBER = 20


class LeftContainer(Value):
    """A container whose job has ended, or is ending now (`is_ending`); `pid` is its first process."""

    job: str
    pid: int
    is_ending: bool


class JobFacts(Value):
    """Containers that outlive their jobs; `problem` is why they are unknown, "" if they are known."""

    problem: str = ""
    left: tuple[LeftContainer, ...] = ()


class SlurmFacts(Value):
    """Slurm's configuration on this node; `problem` is why it cannot be read."""

    is_configured: bool = False
    problem: str = ""
    # None without Slurm or without GPUs.
    status: SlurmStatus | None = None
    # The device files of GPUs by their number in Slurm.
    files: tuple[str, ...] = ()


def read_slurm(host: Host, gpus: Sequence[Gpu], node: str = "") -> SlurmFacts:
    """Return what Slurm's files say about a node, by default this one; unreadable files are a fact too."""
    if not (gpus and _is_configured(host)):
        return SlurmFacts()
    # slurmd uses this name for the node unless it was given another one.
    node = node or os.uname().nodename.partition(".")[0]
    try:
        status = read_status(host, gpus, node)
        files = tuple(read_device_files(host, node))
    except RefusedLine as error:
        # Doctor's bundle contains no line of a file.
        return SlurmFacts(is_configured=True, problem=f"slurmd refuses a line of {error.file}")
    except ToolkitError as error:
        return SlurmFacts(is_configured=True, problem=error.message)
    return SlurmFacts(is_configured=True, status=status, files=files)


def read_jobs(host: Host, proc: str = "/proc") -> JobFacts | None:
    """Return what Slurm reports about jobs whose containers run here; None if this process may not look."""
    if not _is_configured(host):
        return JobFacts()
    if os.geteuid() != 0 and host.is_this_machine:
        return None
    containers = _containers_of_jobs(Processes(proc))
    answer = ask(JOBS) if containers else None
    if answer and not answer.succeeded:
        return JobFacts(problem=answer.problem or "squeue gives no answer")
    return JobFacts(left=_find_leftovers(containers, answer.output if answer else ""))


def _containers_of_jobs(processes: Processes) -> dict[int, str]:
    """Return, by process id, the job that the first process of each container names in its environment."""
    first = [pid for pid in processes.pids() if processes.ids_inside(pid)[1:][-1:] == [1]]
    jobs = processes.variable_of(first, JOB_ID)
    return {
        pid: job for pid, job in jobs.items() if job.isascii() and job.isdecimal() and len(job) < LONGEST_JOB_NUMBER
    }


def _find_leftovers(containers: Mapping[int, str], output: str) -> tuple[LeftContainer, ...]:
    states = dict(line.split()[:2] for line in output.splitlines() if len(line.split()) > 1)
    return tuple(
        LeftContainer(job=job, pid=pid, is_ending=states.get(job) == ENDING)
        for pid, job in containers.items()
        if job not in states or states[job] in OVER or states[job] == ENDING
    )


def _is_configured(host: Host) -> bool:
    return any(find_conf(host, name) for name in (GRES_CONF, SLURM_CONF))
