"""Checks of Slurm on this node."""

from __future__ import annotations

from amd_ctk.configuration.engine import is_amd_runtime
from amd_ctk.doctor.check import Finding, bad, check, not_checked, note, ok
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.slurm.status import OUTDATED, SlurmStatus, format_foreign

CONFIGURE = "sudo amd-ctk runtime configure --runtime=slurm"
SHOW = "amd-ctk slurm status"


@check(
    engine="slurm",
    why="a job gets the GPUs that gres.conf lists, and the AMD runtime gives them to its container",
    see="how-to/slurm.md#see-what-is-wrong",
)
def check_slurm(facts: Facts) -> Finding | None:
    """Does Slurm use this node's GPUs and the AMD runtime?"""
    slurm = facts.slurm
    if slurm.problem:
        return bad(slurm.problem, fix=SHOW)
    return _judge_status(slurm.status, slurm.files) if slurm.status else None


@check(
    engine="slurm",
    why="a container that outlives its job keeps its GPUs and disturbs the next job",
    see="how-to/slurm.md#when-a-job-ends",
)
def check_slurm_jobs(facts: Facts) -> Finding | None:
    """Do containers end with their jobs?"""
    if facts.jobs is None:
        return not_checked("the containers of jobs", needs="root")
    if facts.jobs.problem:
        return not_checked(f"which jobs are over: {facts.jobs.problem}", needs="squeue")
    if facts.jobs.left:
        # A container that is ending may be saving its work, so report the others first.
        left = min(facts.jobs.left, key=lambda left: left.is_ending)
        named = f"a container of job {left.job} (process {left.pid})"
        fix = f"sudo kill -KILL {left.pid}"
        if left.is_ending:
            return note(f"{named} has not ended yet, and Slurm waits for it", fix=fix)
        return bad(f"{named} is still running, but its job is over", fix=fix)
    return ok("no container outlives its job") if facts.slurm.is_configured else None


def _judge_status(status: SlurmStatus, files: tuple[str, ...]) -> Finding:
    numbered = [gpu for gpu in status.gpus if gpu.slurm_number is not None]
    if status.foreign_files or (files and not numbered):
        words = format_foreign(status.foreign_files[0]) if status.foreign_files else status.problems[0]
        return bad(words, fix=f"write gres.conf as 'amd-ctk slurm gres' prints it; {SHOW}")
    if status.runtime and not is_amd_runtime(status.runtime):
        words = f"Slurm calls {status.runtime} for containers, so they get no GPU"
        # This command does not replace a runtime that another program chose.
        return bad(words, fix=f"delete the lines RunTime* of oci.conf, and then: {CONFIGURE}")
    if status.is_outdated:
        return note(OUTDATED, fix=CONFIGURE)
    if status.problems:
        return note(status.problems[0], fix=SHOW)
    return ok(f"Slurm knows {len(numbered)} GPU{'' if len(numbered) == 1 else 's'} of this node")
