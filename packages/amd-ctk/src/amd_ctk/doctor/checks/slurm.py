"""Slurm on this node."""

from __future__ import annotations

import os

from amd_ctk.configuration.engine import RUNTIME_PROGRAM
from amd_ctk.doctor.check import Finding, bad, check, note, ok
from amd_ctk.slurm.status import format_foreign

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts
    from amd_ctk.slurm.status import SlurmStatus

CONFIGURE = "sudo amd-ctk runtime configure --runtime=slurm"
SHOW = "amd-ctk slurm status"


@check(
    "slurm",
    engine="slurm",
    why="a job has the GPUs that gres.conf names, and its container those that the AMD runtime finds for them",
    see="how-to/slurm.md#see-what-is-wrong",
)
def check_slurm(facts: Facts) -> Finding | None:
    """Does Slurm give jobs the GPUs of this node, and containers the AMD runtime?"""
    slurm = facts.slurm
    if slurm.problem:
        return bad(slurm.problem, fix=SHOW)
    return _judge_status(slurm.status, slurm.files) if slurm.status else None


def _judge_status(status: SlurmStatus, files: tuple[str, ...]) -> Finding:
    numbered = [gpu for gpu in status.gpus if gpu.slurm_number is not None]
    if status.foreign_files or (files and not numbered):
        words = format_foreign(status.foreign_files[0]) if status.foreign_files else status.problems[0]
        return bad(words, fix=f"write gres.conf as 'amd-ctk slurm gres' prints it; {SHOW}")
    if status.runtime and os.path.basename(status.runtime) != RUNTIME_PROGRAM:
        words = f"Slurm calls {status.runtime} for containers, and these get no GPU"
        # It replaces no runtime that another program chose.
        return bad(words, fix=f"delete the lines RunTime* of oci.conf, and then: {CONFIGURE}")
    if status.problems:
        return note(status.problems[0], fix=SHOW)
    return ok(f"Slurm knows {len(numbered)} GPU{'' if len(numbered) == 1 else 's'} of this node")
