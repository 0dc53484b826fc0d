"""GPUs that are sick, lost or drained."""

from __future__ import annotations

from amd_ctk.doctor.check import Finding, bad, check, note
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.gpus import GpuCondition
from amd_gpu_tracker import GpuState

SICK_PAGE = "how-to/service-gpus.md#a-gpu-is-sick"


@check(
    "gpu-health",
    why="every program fails on a GPU that its driver has given up; a GPU with errors is given out last",
    see=SICK_PAGE,
)
def check_gpu_health(facts: Facts) -> Finding | None:
    """Are the GPUs well?"""
    if sick := _find(facts, GpuState.SICK):
        return bad(_words(sick), fix="sudo dmesg | grep amdgpu, then reset the GPU or reboot")
    if suspect := _find(facts, GpuState.SUSPECT):
        return note(_words(suspect), fix=_command("drain", suspect))
    return None


@check(
    "gpu-lost",
    why="requests for GPUs numbered after a lost one are refused, because the numbers now mean other GPUs",
    see="how-to/service-gpus.md#a-gpu-is-lost",
)
def check_gpu_lost(facts: Facts) -> Finding | None:
    """Are all tracked GPUs still present?"""
    lost = _find(facts, GpuState.LOST)
    return bad(_words(lost), fix=_command("forget", lost)) if lost else None


@check(
    "gpu-drained",
    why="a drained GPU is not given out until it is undrained",
    see="how-to/service-gpus.md#drain-a-gpu",
)
def check_gpu_drained(facts: Facts) -> Finding | None:
    """Is a GPU drained?"""
    drained = _find(facts, GpuState.DRAINED, GpuState.DRAINING)
    return note(_words(drained), fix=_command("undrain", drained)) if drained else None


def _find(facts: Facts, *states: str) -> list[GpuCondition]:
    return [gpu for gpu in facts.conditions if gpu.state in states]


def _words(gpus: list[GpuCondition]) -> str:
    """Return one sentence about all of them, with the reason of the first."""
    numbers = ", ".join(str(gpu.number) for gpu in gpus)
    subject = f"GPU {numbers} is" if len(gpus) == 1 else f"GPUs {numbers} are"
    return f"{subject} {gpus[0].state}{f': {gpus[0].reason}' if gpus[0].reason else ''}"


def _command(verb: str, gpus: list[GpuCondition]) -> str:
    return f"sudo amd-ctk gpu-tracker {verb} {','.join(str(gpu.number) for gpu in gpus)}"
