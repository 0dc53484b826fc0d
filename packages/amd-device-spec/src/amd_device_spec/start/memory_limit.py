"""Limits how much memory of its GPUs a container can use, by the dmem controller of the kernel's cgroups.

Linux has it since 6.14, with CONFIG_CGROUP_DMEM. The amdgpu driver registers one region for each board, and charges
what a process allocates there to the cgroup of the process. At the limit, an allocation fails with "out of memory".
Source: Documentation/admin-guide/cgroup-v2.rst, DMEM; drivers/gpu/drm/amd/amdgpu/amdgpu_vram_mgr.c.
"""

from __future__ import annotations

from amd_device_spec.request import MEMORY, NOT_LIMITED, SWARM_PREFIX, VISIBLE_DEVICES, LimitedMemory
from amdgpu_discovery.choices.unknown_gpus import format_numbers, shown
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import RequestError, SpecError
from amdgpu_discovery.gpu import MEBIBYTE
from amdgpu_discovery.host import is_user_namespace
from amdgpu_discovery.usage.memory_limits import CAPACITY, CGROUPS, CONTROLLER, LIMIT_FILE, read_regions, region_of
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from amd_device_spec.settings import Settings
    from amdgpu_discovery.choices.oci_spec import Grant
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.host import Host

CONTROLLERS = f"{CGROUPS}/cgroup.controllers"
# runc enables the controller for the container's cgroup; crun enables only those that it knows (crun_limit.py).
RUNC = "runc"
CRUN = "crun"
# Since this release, a write with lines for two regions is refused, and this version of runc writes each line alone.
KERNEL_RELEASE = "/proc/sys/kernel/osrelease"
ONE_REGION_SINCE = (7, 3)
LINE_BY_LINE_SINCE = (1, 2)
# It answers at once, except on a machine that is overloaded; a wrong answer would cost the container its start.
RUNC_SECONDS = 30.0
# crun sets its limits through systemd without a cgroup of its own below the scope since 1.18 (its NEWS), and this
# release, Debian 13's, is known to write the limits of several GPUs line by line.
WHOLE_SCOPE_SINCE = (1, 21)
MIB_BY_UNIT = {"mib": 1, "gib": 1024}
MOST_LIMIT_DIGITS = 9
OFF = "off"
LET_START = "'sudo amd-ctk config set vram-limit asked' lets such containers start without a limit"


class MemoryLimit(Value):
    """The limit of a container: `mib` for each of its GPUs, and who set it, as its variable or setting."""

    mib: int
    source: str
    # An administrator's maximum can be more than a board has, and a container's wish not.
    is_asked: bool = False


class Enforced(Value):
    """The limits by region in bytes, and why other GPUs have none; `obstacle` is "" if all have one."""

    bytes_by_region: dict[str, int]
    obstacle: str = ""


def limit_memory(
    spec: dict[str, Any],
    asked: str | None,
    grant: Grant,
    host: Host,
    settings: Settings,
    *,
    part_mb: int,
    runtime: str,
    by_systemd: bool | None,
    is_preview: bool,
    is_rootless: bool,
    is_alone: Callable[[], bool],
) -> LimitedMemory:
    """Put the limit of a container into its spec, as the setting vram-limit says. Raises RequestError and SpecError.

    `asked` is the container's variable, `part_mb` what its job has of each GPU (0 for all), `runtime` the program that
    creates the container, and `by_systemd` whether systemd makes its cgroup; None if a preview does not know. A preview
    changes nothing outside the spec, and knows whether the container's engine `is_rootless`. `is_alone` returns whether
    no other container can have its GPUs.
    """
    if asked and not grant.gpus:
        note = f"{MEMORY}={shown(asked)} limits nothing, because {VISIBLE_DEVICES} gives this container no GPU"
        return LimitedMemory(notes=(note,))
    if settings.vram_limit == OFF:
        note = f'{MEMORY} is ignored because vram-limit is "{OFF}"'
        return LimitedMemory(notes=(note,) if asked else ())
    numbers = {gpu.number for gpu in grant.gpus}
    gpus = [gpu for gpu in find_gpus(host) if gpu.number in numbers]
    limit = find_limit(asked, grant, settings, gpus, part_mb)
    if limit is None:
        if settings.requires_limit and not is_alone():
            raise _needs_limit(gpus)
        return NOT_LIMITED
    enforced = enforce(limit, gpus, host, runtime=runtime, is_rootless=is_rootless)
    if enforced.bytes_by_region and is_crun(runtime):
        enforced = _enforce_by_crun(spec, enforced, host, crun=runtime, by_systemd=by_systemd, is_preview=is_preview)
    if enforced.obstacle and settings.requires_limit:
        raise RequestError(f"{limit.source} cannot be enforced: {enforced.obstacle}", hint=LET_START)
    limited = _put_limit(spec, limit, enforced, gpus)
    if by_systemd is None and limited.is_enforced and is_crun(runtime):
        note = f"{limit.source} is enforced by crun only where systemd makes the container's cgroup"
        return limited.replace(notes=(*limited.notes, note))
    return limited


def find_limit(
    asked: str | None, grant: Grant, settings: Settings, gpus: Sequence[Gpu], part_mb: int = 0
) -> MemoryLimit | None:
    """Return the smallest limit among that of the container, its share, its job's and the administrator's.

    None without any. `asked` is the container's variable, `part_mb` what its job has of each GPU; 0 for all.
    RequestError if it is not an amount that each of these GPUs has.
    """
    limits = []
    if asked:
        limits.append(MemoryLimit(mib=parse_amount(asked, gpus), source=f"{MEMORY}={shown(asked)}", is_asked=True))
    if grant.vram:
        limits.append(MemoryLimit(mib=grant.vram.mib, source=f"{SWARM_PREFIX}{grant.vram.kind}={grant.vram.mib}"))
    if part_mb:
        limits.append(MemoryLimit(mib=part_mb, source=f"its job's part of {part_mb} MiB"))
    if settings.vram_maximum:
        limits.append(MemoryLimit(mib=settings.vram_maximum, source=f"vram-maximum = {settings.vram_maximum}"))
    return min(limits, key=lambda limit: limit.mib, default=None)


def parse_amount(value: str, gpus: Sequence[Gpu], name: str = MEMORY) -> int:
    """Return an amount such as `8GiB` in MiB; RequestError if it is none, or more than one of the GPUs has.

    `name` is the variable or option that has the value.
    """
    text = value.strip().lower()
    number, unit = text[:-3].strip(), text[-3:]
    named = f"{name}={shown(value)}"
    hint = f"as in {name}=8GiB"
    if unit not in MIB_BY_UNIT or not (number.isascii() and number.isdecimal()) or len(number) > MOST_LIMIT_DIGITS:
        raise RequestError(f"{named} is not an amount of memory with its unit, MiB or GiB", hint=hint)
    mib = int(number) * MIB_BY_UNIT[unit]
    if not mib:
        raise RequestError(f"{named} leaves no memory", hint=hint)
    for gpu in sorted(gpus, key=lambda gpu: gpu.vram_bytes or 0):
        if gpu.vram_bytes and gpu.vram_bytes < mib * MEBIBYTE:
            has = gpu.vram_bytes // MEBIBYTE
            raise RequestError(f"{named} is more than GPU {gpu.number} has, which is {has} MiB", hint=hint)
    return mib


def enforce(
    limit: MemoryLimit, gpus: Sequence[Gpu], host: Host, *, runtime: str, is_rootless: bool = False
) -> Enforced:
    """Return what the kernel of this host can enforce of a limit, if `runtime` creates the container.

    RequestError if a container asks for more of a board, by its partitions, than the board has.
    """
    if obstacle := find_obstacle(host, runtime, is_rootless=is_rootless):
        return Enforced(bytes_by_region={}, obstacle=obstacle)
    capacities = read_regions(host, CAPACITY)
    limits: dict[str, int] = {}
    without: list[int] = []
    for gpu in gpus:
        region = region_of(gpu)
        if gpu.is_apu or region not in capacities:
            without.append(gpu.number)
        else:
            # Partitions of a board share its region.
            limits[region] = limits.get(region, 0) + limit.mib * MEBIBYTE
    for region, size in limits.items():
        if limit.is_asked and size > max(capacities[region], limit.mib * MEBIBYTE):
            raise _needs_more_than_the_board(limit, size, capacities[region])
    if len(limits) > 1 and not is_crun(runtime) and (obstacle := _find_obstacle_to_several(host, runtime)):
        return Enforced(bytes_by_region={}, obstacle=obstacle)
    obstacle = f"the kernel has no memory region of {_named(without)}" if without else ""
    if any(gpu.is_apu for gpu in gpus):
        obstacle = "an integrated GPU uses the memory of the host, which has no such limit"
    return Enforced(bytes_by_region=limits, obstacle=obstacle)


def find_obstacle(host: Host, runtime: str, *, is_rootless: bool = False) -> str:
    """Return why this host can limit no GPU's memory for a container that `runtime` creates; "" if it can.

    Outside of its start, the caller says whether the container `is_rootless`.
    """
    if is_rootless or is_user_namespace():
        return "the container is rootless, and root owns the cgroups that have limits"
    controllers = host.read_attribute(CONTROLLERS)
    if not controllers:
        return "the host does not use the unified cgroup hierarchy (cgroup v2)"
    if CONTROLLER not in controllers.split():
        return "the kernel has no dmem cgroup (it needs Linux 6.14 or later with CONFIG_CGROUP_DMEM)"
    if runtime.rpartition("/")[2] not in (RUNC, CRUN):
        return f"{runtime.rpartition('/')[2]} does not enable the dmem cgroup; runc does"
    return ""


def is_crun(runtime: str) -> bool:
    """Return whether a program is crun, which sets a limit only where systemd makes the container's cgroup."""
    return runtime.rpartition("/")[2] == CRUN


def find_obstacle_to_old_crun(crun: str) -> str:
    """Return why crun is too old, "" if it is not; this runs crun. One without a version is taken for a new one."""
    version = _version_of(crun)
    if not () < version < WHOLE_SCOPE_SINCE:
        return ""
    found, needed = (".".join(map(str, each)) for each in (version, WHOLE_SCOPE_SINCE))
    return f"crun {found} does not set all limits of a container in systemd's scope; install crun {needed} or later"


def put_lines(spec: dict[str, Any], bytes_by_region: dict[str, int]) -> None:
    """Put limits into an OCI spec, in place of what it has for the same regions. Raises SpecError.

    The key is the name of the file in the container's cgroup.
    """
    linux = spec.setdefault("linux", {})
    resources = linux.setdefault("resources", {}) if isinstance(linux, dict) else None
    unified = resources.setdefault("unified", {}) if isinstance(resources, dict) else None
    if not isinstance(unified, dict):
        raise SpecError("its 'linux.resources.unified' is not an object")
    before = str(unified.get(LIMIT_FILE, "")).splitlines()
    others = [line for line in before if line.partition(" ")[0] not in bytes_by_region]
    unified[LIMIT_FILE] = "\n".join([*others, *(f"{region} {size}" for region, size in bytes_by_region.items())])


def _enforce_by_crun(
    spec: dict[str, Any], enforced: Enforced, host: Host, *, crun: str, by_systemd: bool | None, is_preview: bool
) -> Enforced:
    """Return what crun can enforce; for a start, prepare the spec and the cgroups above the container for it."""
    if by_systemd is False:
        return Enforced(
            bytes_by_region={}, obstacle="crun sets a limit only where systemd makes the container's cgroup"
        )
    obstacle = find_obstacle_to_old_crun(crun)
    if by_systemd and not obstacle:
        # Few hosts have limits and crun.
        from amd_device_spec.start.crun_limit import let_crun_limit

        obstacle = let_crun_limit(spec, host, is_preview=is_preview)
    return Enforced(bytes_by_region={}, obstacle=obstacle) if obstacle else enforced


def _put_limit(spec: dict[str, Any], limit: MemoryLimit, enforced: Enforced, gpus: Sequence[Gpu]) -> LimitedMemory:
    if enforced.bytes_by_region:
        put_lines(spec, enforced.bytes_by_region)
    totals = {gpu.vram_bytes or 0 for gpu in gpus}
    return LimitedMemory(
        mib=limit.mib,
        total_mib=max(totals) // MEBIBYTE if len(totals) == 1 else 0,
        is_enforced=bool(enforced.bytes_by_region),
        notes=(f"{limit.source} is not enforced: {enforced.obstacle}",) if enforced.obstacle else (),
    )


def _find_obstacle_to_several(host: Host, runc: str) -> str:
    """Return why several regions cannot have limits of one container, "" if they can; this runs runc.

    A kernel whose release is not known is taken for a new one, and a runc that does not tell its version, too.
    """
    # Few containers have limits on several GPUs.
    from amdgpu_discovery.command_line.programs import parse_version

    release = parse_version(host.read_attribute(KERNEL_RELEASE))
    if () < release < ONE_REGION_SINCE:
        return ""
    version = _version_of(runc)
    if not () < version < LINE_BY_LINE_SINCE:
        return ""
    found, kernel, needed = (".".join(map(str, each)) for each in (version, ONE_REGION_SINCE, LINE_BY_LINE_SINCE))
    return (
        f"runc {found} sets the limits of several GPUs in one write, which Linux {kernel} and later refuse;"
        f" install runc {needed} or later"
    )


def _version_of(program: str) -> tuple[int, ...]:
    """Return the version of runc or crun, () if it is not known."""
    from amdgpu_discovery.command_line.programs import ask, parse_version

    # The next lines have the version of the specification.
    return parse_version(ask([program, "--version"], seconds=RUNC_SECONDS).output.partition("\n")[0])


def _needs_more_than_the_board(limit: MemoryLimit, size: int, capacity: int) -> RequestError:
    """Return the refusal of partitions whose limits would together be none."""
    asked = f"{limit.source} for {size // MEBIBYTE // limit.mib} GPUs of one board"
    said = f"{asked} is more than the board has, which is {capacity // MEBIBYTE} MiB"
    return RequestError(said, hint=f"ask for less, as in {MEMORY}=8GiB, or for fewer GPUs")


def _needs_limit(gpus: Sequence[Gpu]) -> RequestError:
    """Return the refusal of a container without a limit, where each container on a shared GPU needs one."""
    named = _named([gpu.number for gpu in gpus])
    said = f'vram-limit is "required", and the container does not say how much memory of {named} it needs'
    return RequestError(said, hint=f"set {MEMORY}, as in {MEMORY}=8GiB, or make the GPU exclusive")


def _named(numbers: Sequence[int]) -> str:
    return f"GPU{'s' if len(numbers) > 1 else ''} {format_numbers(numbers)}"
