"""What each variable of a container means for its GPUs, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from amd_ctk.explain.plan import Plan
from amd_ctk.rocm_variables import Inside
from amd_device_spec.request import SWARM_PREFIX, VISIBLE_DEVICES
from amd_device_spec.slurm.job_gpus import FILTERS as SLURM_FILTERS
from amdgpu_discovery.choices.selection import asks_for_nothing, may_be_choice, resolve
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.value import Value

NOT_SET = f"is not set, so the runtime gives no GPU (-e {VISIBLE_DEVICES}=all gives all)"


class Meaning(Value):
    """A variable, and what it means."""

    subject: str
    words: str


def describe_variables(
    spec: dict[str, Any], plan: Plan, inside: Inside, *, located: Sequence[GpuLocation], is_read: bool
) -> Iterator[Meaning]:
    """Yield a line for each variable that is about GPUs; `is_read` is false if the engine calls another runtime."""
    entries = [entry.partition("=")[::2] for entry in spec.get("process", {}).get("env") or []]
    last = max((place for place, (name, _) in enumerate(entries) if name == VISIBLE_DEVICES), default=-1)
    for place, (name, value) in enumerate(entries):
        words = _describe_in_job(name, value, plan) or inside.effect_by_variable.get(name, "")
        if words := words or _describe(name, value, plan, located, is_read=is_read, is_last=place == last):
            yield Meaning(subject=f"{shown(name)}={shown(value)}", words=words)
    if last < 0 and not plan.granted.gpus and is_read:
        yield Meaning(subject=VISIBLE_DEVICES, words=NOT_SET)


def name_gpus(gpus: Sequence[GpuLocation]) -> str:
    """Return GPUs in words: "GPU 1", "GPUs 1 and 2", "GPUs 0-7"."""
    numbers = [gpu.number for gpu in gpus]
    if not numbers:
        return "no GPU"
    if len(numbers) == 1:
        return f"GPU {numbers[0]}"
    if len(numbers) > 2 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"GPUs {numbers[0]}-{numbers[-1]}"
    return f"GPUs {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _describe(
    name: str, value: str, plan: Plan, located: Sequence[GpuLocation], *, is_read: bool, is_last: bool
) -> str:
    if name != VISIBLE_DEVICES and not name.startswith(SWARM_PREFIX):
        return ""
    if not is_read:
        is_list = name == VISIBLE_DEVICES and not (asks_for_nothing(value) or may_be_choice(value))
        problems = _resolve(value, located)[1] if is_list else ""
        return f"is not read; {problems}" if problems else "is not read"
    if name == VISIBLE_DEVICES:
        return _describe_visible(value, plan, located) if is_last else f"not counted: the last {VISIBLE_DEVICES} counts"
    return _describe_resource(name.removeprefix(SWARM_PREFIX), value, plan, located)


def _describe_in_job(name: str, value: str, plan: Plan) -> str:
    """Return what a variable means in a Slurm job, "" if the job changes nothing."""
    job = plan.request.job if plan.request else None
    if job and name == job.variable:
        return "the container can have only the GPUs of this Slurm job"
    if job and name in SLURM_FILTERS and f"{name}={value}" not in plan.spec["process"]["env"]:
        return "is taken out of the environment: it would choose a second time among the job's GPUs"
    return ""


def _describe_visible(value: str, plan: Plan, located: Sequence[GpuLocation]) -> str:
    if plan.request is None:
        return "is ignored, see below"
    if asks_for_nothing(value):
        return "no GPU"
    if plan.granted.kinds:
        return f"is ignored: {' and '.join(SWARM_PREFIX + kind for kind in plan.granted.kinds)} counts"
    if may_be_choice(value):
        return _describe_choice(plan)
    given = plan.granted.gpus
    left_out = _find_left_out(value, plan, located)
    if left_out:
        return f"{name_gpus(given)}, without {name_gpus(left_out)} (drained, sick or integrated)"
    return _name_what_resolves(value, located)


def _find_left_out(value: str, plan: Plan, located: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return the GPUs that `all` means but does not give."""
    given = {gpu.number for gpu in plan.granted.gpus}
    return [gpu for gpu in _resolve(value, located)[0] if given and gpu.number not in given]


def _describe_choice(plan: Plan) -> str:
    if plan.refusals:
        return plan.refusals[0].message
    now = ", if it starts now" if plan.granted.candidates else ""
    return f"{name_gpus(plan.granted.gpus)}{now}"


def _describe_resource(kind: str, value: str, plan: Plan, located: Sequence[GpuLocation]) -> str:
    if kind not in plan.granted.kinds:
        return "is not counted"
    if plan.granted.vram:
        return f"{plan.granted.vram.mib} MiB of {name_gpus(plan.granted.gpus)}, if it starts now"
    return _name_what_resolves(value, located)


def _name_what_resolves(value: str, located: Sequence[GpuLocation]) -> str:
    gpus, problems = _resolve(value, located)
    if not problems:
        return name_gpus(gpus)
    return f"{name_gpus(gpus)}; {problems}" if gpus else problems


def _resolve(value: str, located: Sequence[GpuLocation]) -> tuple[Sequence[GpuLocation], str]:
    """Return the GPUs of a request, and its problems."""
    try:
        resolution = resolve(located, value)
    except RequestError as error:
        return (), error.message
    return resolution.gpus, "; ".join(problem.message for problem in resolution.problems)
