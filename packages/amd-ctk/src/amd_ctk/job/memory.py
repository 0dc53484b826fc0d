"""The limit on the memory of a job's GPUs: the runtime sets that of a container, and a program is only told of it."""

from __future__ import annotations

import os

from amd_ctk.engines.engine_words import PODMAN, engine_of, find_engine, find_run, without_prefixes
from amd_device_spec.oci import memory_variables
from amd_device_spec.request import MEMORY
from amd_device_spec.settings import read_settings
from amd_device_spec.start.memory_limit import LET_START, OFF, RUNC, find_obstacle, parse_amount
from amdgpu_discovery.command_line.stderr import print_note
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import MEBIBYTE
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.job.engine_options import EngineOptions
    from amd_ctk.job.start import PlannedJob
    from amdgpu_discovery.host import Host

OPTION = "--vram"
NO_CONTAINER = "the command is not 'docker run' or 'podman run', and only containers have limits"
BY_CDI = "the engine has no AMD runtime, and CDI sets no limit"


class JobLimit(Value):
    """What `--vram` does: `words` are for the `run` of an engine; a program is told the limit if `is_told`.

    `part_mib` is what the job gets of each GPU, at most the administrator's maximum; 0 if limits are off. `vram` is
    the same as a value of AMD_VRAM.
    """

    vram: str = ""
    part_mib: int = 0
    words: tuple[str, ...] = ()
    is_told: bool = False

    def variables_for(self, host: Host, numbers: Sequence[int]) -> dict[str, str]:
        """Return the variables for a program with these GPUs, which have that much memory."""
        if not (self.is_told and numbers):
            return {}
        totals = {(gpu.vram_bytes or 0) // MEBIBYTE for gpu in find_gpus(host) if gpu.number in numbers}
        headroom = read_settings(host).swarm_vram_headroom
        told = memory_variables(self.part_mib, max(totals) if len(totals) == 1 else 0, headroom)
        return {MEMORY: self.vram, **dict(variable.split("=", 1) for variable in told)}


def require_amount(host: Host, vram: str) -> int:
    """Return the value of `--vram` in MiB; RequestError if it is no amount, or more than each GPU of the host has."""
    return parse_amount(vram, sorted(find_gpus(host), key=lambda gpu: gpu.vram_bytes or 0)[-1:], OPTION)


def find_job_limit(job: PlannedJob, host: Host, options: EngineOptions | None) -> JobLimit:
    """Return the limit of a job before its GPUs are reserved, and print why the kernel will not enforce it.

    RequestError if it is no amount, or if limits are required and this one cannot be enforced.
    """
    mib = require_amount(host, job.vram)
    settings = read_settings(host)
    said = f"{OPTION}={job.vram}"
    if settings.vram_limit == OFF:
        print_note(f'{said} is ignored because vram-limit is "{OFF}"')
        return JobLimit()
    if obstacle := _find_obstacle(job, host, options):
        if settings.requires_limit:
            raise RequestError(f"{said} cannot be enforced: {obstacle}", hint=LET_START)
        print_note(f"{said} is not enforced: {obstacle}")
    part = min(mib, settings.vram_maximum or mib)
    # The runtime refuses an amount that a GPU does not have, and the GPU is chosen by the part.
    limit = JobLimit(vram=job.vram if part == mib else f"{part}MiB", part_mib=part)
    if find_run(job.argv) is None:
        return limit.replace(is_told=True)
    return limit.replace(words=("-e", f"{MEMORY}={limit.vram}"))


def _find_obstacle(job: PlannedJob, host: Host, options: EngineOptions | None) -> str:
    """Return why a job has no limit, as far as that is known before the runtime is called; "" if it may have one."""
    if find_run(job.argv) is None:
        return NO_CONTAINER
    if options and options.has_cdi:
        return BY_CDI
    is_podman = engine_of(job.argv[find_engine(job.argv)]) == PODMAN
    is_of_user = is_podman and os.geteuid() != 0 and not without_prefixes(job.argv).is_sudo
    is_rootless = is_of_user or (options is not None and options.is_rootless)
    return find_obstacle(host, RUNC, is_rootless=is_rootless)
