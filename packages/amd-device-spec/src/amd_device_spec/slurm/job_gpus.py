"""Which GPUs of a host a Slurm job has, and the variables that would make ROCm choose among them again.

Any user can write the variables of a job. They give nothing that AMD_VISIBLE_DEVICES could not give, and never more
than this process may use.
"""

from __future__ import annotations

import posix

from amd_device_spec.request import SLURM_PREFIX, VISIBLE_DEVICES, GpuRequest, with_variable
from amd_device_spec.slurm.conf import (
    GRES_CONF,
    SLURM_CONF,
    find_conf,
    find_device_files,
    find_types,
    has_several_types,
    read_lines,
)
from amd_device_spec.slurm.grammar import HINT
from amd_device_spec.slurm_job import NODE, Job, SlurmError, parse_job, parse_numbers
from amdgpu_discovery.choices.oci_spec import Grant
from amdgpu_discovery.choices.rules import NO_RULES, ChoiceRules
from amdgpu_discovery.choices.selection import asks_for_nothing
from amdgpu_discovery.choices.unknown_gpus import format_numbers, shown
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from amd_device_spec.settings import Settings
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

# The longest possible name of a host; Slurm's names are no longer.
LONGEST_NODE = 64
# Each makes ROCm or HIP count the GPUs that it finds from 0; HIP obeys CUDA's variable too.
FILTERS = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "CUDA_VISIBLE_DEVICES")


def rules_in_job(rules: ChoiceRules, request: str, host: Host, environment: Mapping[str, str]) -> ChoiceRules:
    """Return the rules for a request from a process with this environment: in a job it may use the job's GPUs only.

    Raises RequestError if the job has none, SlurmError if they are unknown.
    """
    job = parse_job({name: value for name, value in environment.items() if name.startswith(SLURM_PREFIX)})
    if job is None or asks_for_nothing(request):
        return rules
    gpus = locate_gpus(host)
    allowed = find_gpus_of_job(job, gpus, host)
    if gpus and not allowed:
        error = no_gpu_of_job()
        raise RequestError(f"{shown(request)}: {error.message}", hint=error.hint)
    return rules.replace(numbers=tuple(gpu.number for gpu in allowed)) if len(allowed) < len(gpus) else rules


def numbers_in_job(request: str, host: Host, environment: Mapping[str, str]) -> tuple[int, ...] | None:
    """Return the numbers of the GPUs to which its job limits an environment; None if there is no such limit."""
    return rules_in_job(NO_RULES, request, host, environment).numbers


def grant_in_job(
    request: GpuRequest,
    job: Job,
    gpus: Sequence[GpuLocation],
    host: Host,
    settings: Settings,
    *,
    decide: Callable[[Sequence[GpuLocation]], Grant],
) -> Grant:
    """Return what a request gets in a job: what `decide` grants of the job's GPUs, or all of them if it names none.

    Raises the errors of `decide`, and SlurmError if it is unknown which GPUs the job has. `gpus` are those that this
    process may use.
    """
    allowed = find_gpus_of_job(job, gpus, host)
    if not (request.is_named or request.unadvertised):
        return Grant(gpus=tuple(allowed))
    if gpus and not allowed:
        problem = with_variable(VISIBLE_DEVICES, request.visible or "", no_gpu_of_job())
        if settings.unknown_gpus == "error":
            raise problem
        return Grant(gpus=(), notes=(problem.message,))
    try:
        return decide(allowed)
    except RequestError as error:
        raise with_gpus_of_job(error, [gpu.number for gpu in allowed]) from error


def no_gpu_of_job() -> RequestError:
    """Return the error for a job without GPUs, or without any that this process may use."""
    return RequestError(
        "this Slurm job has no GPU that this process may use", hint="ask for GPUs, as with 'srun --gres=gpu:1'"
    )


def with_gpus_of_job(error: RequestError, numbers: Sequence[int]) -> RequestError:
    """Return the error with the job's GPUs as its hint, if it is about GPUs that the job does not have."""
    if not error.names_hidden:
        return error
    return RequestError(error.message, hint=f"Slurm gave this job {format_numbers(numbers)}")


def find_gpus_of_job(job: Job, gpus: Sequence[GpuLocation], host: Host) -> list[GpuLocation]:
    """Return those of `gpus` that a job may use, all if Slurm does not give out GPUs. Raises SlurmError."""
    files = read_device_files(host, job.node)
    return select_gpus_of_job(job, files, gpus) if job.gpus or files else list(gpus)


def select_gpus_of_job(job: Job, files: Sequence[str], gpus: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return those of `gpus` that a job has, in order of their numbers; SlurmError if `files` do not show which."""
    positions = set(job.positions)
    beyond = [position for position in positions if position >= len(files)]
    if beyond:
        raise SlurmError(f"{job.variable}={shown(job.gpus)}: gres.conf has no GPU {min(beyond)} here", hint=HINT)
    paths = {files[position] for position in positions}
    found = [gpu for gpu in gpus if paths & {gpu.render_path, gpu.card_path}]
    if len(found) < len(paths) and gpus and gpus[0].host_total == len(gpus):
        known = {path for gpu in found for path in (gpu.render_path, gpu.card_path)}
        raise SlurmError(f"gres.conf names {shown(min(paths - known))}, which is not a GPU of this host", hint=HINT)
    return found


def read_device_files(host: Host, node: str) -> list[str]:
    """Return this node's GPU device files in the order of Slurm's numbers, [] without a gres.conf. SlurmError."""
    path = find_conf(host, GRES_CONF)
    if path is None:
        return []
    if len(node) > LONGEST_NODE:
        raise SlurmError(f"{NODE}={shown(node)} is not the name of a node")
    node = node or posix.uname().nodename.partition(".")[0]
    lines = read_lines(host, path)
    slurm_conf = find_conf(host, SLURM_CONF) if has_several_types(lines, node) else None
    return find_device_files(lines, node, find_types(read_lines(host, slurm_conf), node) if slurm_conf else ())


def remove_filters(spec: dict[str, Any], job: Job, settings: Settings) -> bool:
    """Remove Slurm's own filters from a spec's environment; return whether there were any.

    Slurm writes the positions on the host, or counts from 0 if it limits the job by a device cgroup. Other values are
    the user's own, and mean GPUs as they are counted in the container.
    """
    if settings.slurm_filters == "keep" or not job.gpus:
        return False
    positions = job.positions
    by_slurm = (positions, list(range(len(positions))))
    environment = spec["process"]["env"]
    kept = [variable for variable in environment if not _is_filter(variable, by_slurm)]
    changed = len(kept) < len(environment)
    environment[:] = kept
    return changed


def _is_filter(variable: str, by_slurm: Sequence[list[int]]) -> bool:
    name, _, value = variable.partition("=")
    return name in FILTERS and parse_numbers(value) in by_slurm
