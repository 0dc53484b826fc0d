"""Checks inside a container: what its image, its mounts and its limits allow."""

from __future__ import annotations

import os

from amd_ctk.doctor.check import BAD, Finding, bad, check, note, ok
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.inside import InsideFacts
from amd_ctk.doctor.inside.image_files import MOST_TARGETS, SHARED_MEMORY, find_home
from amd_ctk.rocm_variables import Override, find_overrides
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.gpu import MEBIBYTE, Gpu
from amdgpu_discovery.tables.driver_versions import is_tested
from amdgpu_discovery.tables.targets import OVERRIDE, fits, generation_of

# linux/capability.h
CAP_IPC_LOCK = 14
GIB = 2**30
# linux/capability.h
CAP_SYS_NICE = 23
# The size of /dev/shm that engines choose, in MiB.
USUAL_SHARED_MEMORY = 64
SMALL_SHARED_MEMORY = 1024
LARGER_SHARED_MEMORY = "add --shm-size=16g, or --ipc=host"


@check(
    why="MIOpen, Triton and the compiler keep kernels below the home directory; without them, each first run takes "
    "minutes again",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_cache(facts: Facts) -> Finding | None:
    """Are the kernels that a first run compiles kept?"""
    inside = facts.container
    if not inside.image.has_rocm:
        return None
    lost = next((path for path in inside.image.compiled if not _is_kept(path, inside)), "")
    if lost:
        words = f"{facts.container_name} has compiled kernels into {lost}, which is deleted with it"
        return bad(words, fix=f"add --volume=rocm-cache:{os.path.dirname(lost)}")
    cache = f"{find_home(inside.variables)}/.cache"
    if _is_kept(cache, inside):
        return ok(f"{cache} is on a volume")
    return note(f"{cache} in {facts.container_name} is deleted with it", fix=f"add --volume=rocm-cache:{cache}")


def _is_kept(path: str, inside: InsideFacts) -> bool:
    return any(path == point or path.startswith(f"{point}/") for point in inside.mount_points if point != "/")


@check(
    why="without lsmod, rocminfo of earlier ROCm prints 'ROCk module is NOT loaded' and exits",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_lsmod(facts: Facts) -> Finding | None:
    """Does the image lack lsmod, which rocminfo asks?"""
    if not facts.container.image.asks_lsmod or facts.container.image.has_lsmod:
        return None
    words = f"rocminfo in {facts.container_name} exits because lsmod is missing; the module is loaded"
    return bad(words, fix="install kmod in the image")


@check(
    why="RDMA registers memory, which the kernel counts as locked; past the limit RCCL and UCX fail",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_memlock(facts: Facts) -> Finding | None:
    """May the container lock enough memory for RDMA?"""
    inside = facts.container
    if not inside.image.has_infiniband:
        return None
    limit = inside.process.locked_memory
    if limit is None or limit >= GIB or inside.process.has_capability(CAP_IPC_LOCK):
        return ok(f"{facts.container_name} has InfiniBand devices, and may lock memory")
    words = f"{facts.container_name} has InfiniBand devices, and may lock {limit // 1024} KiB of memory"
    return bad(words, fix="add --ulimit memlock=-1")


@check(
    why="engines' seccomp profiles allow mbind and set_mempolicy only with CAP_SYS_NICE; RCCL and numactl "
    "then complain",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_numa(facts: Facts) -> Finding | None:
    """Does seccomp refuse the calls that place memory near a GPU?"""
    inside = facts.container
    is_filtered = inside.process.has_seccomp and not inside.process.has_capability(CAP_SYS_NICE)
    if inside.numa_nodes < 2 or not facts.gpus_inside or not is_filtered:
        return None
    words = f"seccomp may refuse NUMA calls in {facts.container_name}"
    return note(words, fix="add --cap-add=SYS_NICE if a program asks")


@check(
    why="ROCm loads the code of the target that the variable names; it fails if that code is missing or cannot run",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_override(facts: Facts) -> Finding | None:
    """Does HSA_OVERRIDE_GFX_VERSION name a target whose code runs on the GPU?"""
    overrides = _find_overrides(facts)
    wrong = next((one for one in overrides if not one.target), None)
    if wrong:
        value = shown(facts.container.variables[wrong.name])
        words = f"{wrong.name}={value} in {facts.container_name} is not a version, so ROCm lists no GPU"
        return bad(words, fix=f"start it without {wrong.name}, or write it as 10.3.0")
    gpu_by_number = {gpu.number: gpu for gpu in facts.gpus_inside if gpu.gfx_target}
    judged = [
        _judge_target(one, gpu_by_number[one.gpu.number], facts.container.image.targets)
        for one in overrides
        if one.gpu.number in gpu_by_number
    ]
    # One card may run code that another cannot.
    return next((finding for finding in judged if finding.state == BAD), next(iter(judged), None))


def _find_overrides(facts: Facts) -> list[Override]:
    return find_overrides(facts.gpus_inside, facts.container.variables, processors=facts.gpus.processors)


def _judge_target(override: Override, gpu: Gpu, targets: tuple[str, ...]) -> Finding:
    name, target = override.name, override.target
    makes = f"{name} makes GPU {gpu.number} {target}"
    if targets and not fits(target, targets):
        words = f"{makes}, but the image has code for {' '.join(targets)}"
        return bad(words, fix=f"set {name} to one of these, or use an image with code for {gpu.gfx_target}")
    if generation_of(target) != generation_of(gpu.gfx_target):
        words = f"{makes}, but it is {gpu.gfx_target}, which cannot run that code"
        return bad(words, fix=f"start it without {name}, with an image that has code for {gpu.gfx_target}")
    whose = "every GPU" if name == OVERRIDE else f"GPU {gpu.number}"
    return note(f"{name} makes ROCm take {whose} for {target}, which AMD does not support")


@check(
    why="ROCm in the image calls the kernel's driver, and AMD tests only neighbouring releases",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_rocm(facts: Facts) -> Finding | None:
    """Is the image's ROCm tested with this kernel driver?"""
    rocm = facts.container.image.rocm_version
    driver = facts.kernel.driver_version
    tested = is_tested(facts.kernel.releases, rocm) if rocm and driver else None
    if tested is None:
        return None
    if not tested:
        words = f"the image has ROCm {rocm}, which AMD does not test with the driver amdgpu {driver}"
        return note(words, fix="use an image whose ROCm is within two releases of the driver's")
    return ok(f"the image has ROCm {rocm}, and the driver is amdgpu {driver}")


@check(
    why="RCCL and data loaders share memory through /dev/shm; engines make it 64 MiB by default",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_shm(facts: Facts) -> Finding | None:
    """Is /dev/shm large enough for several GPUs?"""
    if len(facts.gpus_inside) < 2:
        return None
    size, has_rccl = facts.container.image.shared_memory, facts.container.image.has_rccl
    if size is None:
        words = f"{facts.container_name} has no {SHARED_MEMORY}, through which RCCL shares several GPUs"
        return bad(words, fix="start it without --ipc=none") if has_rccl else None
    words = f"{SHARED_MEMORY} in {facts.container_name} has {size // MEBIBYTE} MiB"
    fix = LARGER_SHARED_MEMORY
    if size <= USUAL_SHARED_MEMORY * MEBIBYTE and has_rccl:
        return bad(f"{words}, too little for RCCL and several GPUs", fix=fix)
    if size < SMALL_SHARED_MEMORY * MEBIBYTE:
        return note(f"{words}, for several GPUs", fix=fix)
    return ok(words)


@check(
    why="a library without code for a GPU's target fails with 'invalid device function', or falls back to "
    "the processor",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_targets(facts: Facts) -> Finding | None:
    """Does the image have code for the container's GPUs?"""
    # inside-override reports what an override makes of the targets.
    others = {one.gpu.number for one in _find_overrides(facts)}
    image = facts.container.image
    gpus = [gpu for gpu in _find_gpus(facts) if gpu.number not in others]
    if not gpus:
        return None
    if not image.targets:
        # rocFFT, RCCL and rocSPARSE have ten targets in one file, whose name does not list them.
        words = "the image's file names do not show for which targets it has code"
        fix = "amd-ctk image targets --deep docker:NAME, with the name of the image"
        return note(words, fix=fix) if image.rocm_version or image.has_rccl else None
    if len(image.targets) > MOST_TARGETS:
        return note("the image has code for too many targets to list")
    lacking = [gpu for gpu in gpus if not fits(gpu.gfx_target, image.targets)]
    if lacking:
        known = " ".join(image.targets)
        words = f"GPU {lacking[0].number} is {lacking[0].gfx_target}, but the image has code for {known}"
        return bad(words, fix=f"use an image with code for {lacking[0].gfx_target}")
    return ok(f"the image has code for {', '.join(sorted({gpu.gfx_target for gpu in gpus}))}")


def _find_gpus(facts: Facts) -> list[Gpu]:
    """Return the GPUs with known targets. On a host with cards, inside-integrated judges the integrated GPUs."""
    return [gpu for gpu in facts.gpus_inside if gpu.gfx_target and not (facts.gpus.cards and gpu.is_apu)]
