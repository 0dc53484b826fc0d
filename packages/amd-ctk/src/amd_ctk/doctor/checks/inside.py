"""Checks inside a container: which devices it has, and what its variables make of them."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Sequence

from amd_ctk.doctor.check import Finding, bad, check, not_checked, note, ok
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.explain.host_nodes import DRI
from amd_ctk.rocm_nodes import (
    LEAVE_NAME,
    closed_fix,
    describe_closed,
    describe_renamed,
    find_missing,
    mode_allows,
)
from amd_ctk.rocm_variables import CUDA, FILTERS, HIP, see_gpus
from amd_device_spec.slurm.job_gpus import select_gpus_of_job
from amd_device_spec.slurm_job import NODE, SlurmError, parse_job
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.tables.targets import fits

# Other checks report these errors.
REPORTED_ELSEWHERE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENXIO, errno.ENODEV, errno.ENOTDIR)
WORDS = {errno.ENOMEM: "KFD refuses this card", errno.EBUSY: "the GPU is being reset"}
CONSTRAIN = "set ConstrainDevices=yes in cgroup.conf"


@check(
    why="a process opens a node by its mode, its user and its groups; the name of a group means nothing, its "
    "number does",
    see="explanation/access.md",
)
def check_inside_access(facts: Facts) -> Finding | None:
    """May the container's user open its nodes?"""
    closed = facts.nodes_with(errno.EACCES)
    process = facts.container.process
    if not closed:
        is_open = facts.permitted_nodes
        return ok(f"user {process.uid} of {facts.container_name} may open {is_open[0].path}") if is_open else None
    node = closed[0]
    if mode_allows(node, process):
        words = (
            f"SELinux or a mount with nodev closes {node.path} in {facts.container_name}: its mode would allow access"
        )
        return bad(words, fix="sudo setsebool -P container_use_devices on, or mount it without nodev")
    is_mapped = process.uid_inside is not None
    return bad(describe_closed(node, process), fix=closed_fix(node, is_mapped=is_mapped))


@check(
    why="a node that was bound or made inside cannot be opened if the device cgroup does not allow its number",
    see="explanation/access.md#the-device-cgroup-is-the-gate",
)
def check_inside_cgroup(facts: Facts) -> Finding | None:
    """Does the container's device cgroup allow its nodes?"""
    refused = facts.nodes_with(errno.EPERM)
    if refused:
        words = f"the device cgroup of {facts.container_name} refuses {refused[0].path} ({refused[0].number})"
        return bad(words, fix=f"start it with --device {shlex.quote(refused[0].path)}, or with --runtime=amd")
    return ok(f"the device cgroup of {facts.container_name} refuses no node") if facts.permitted_nodes else None


@check(
    why="ROCR_, HIP_ and CUDA_VISIBLE_DEVICES count the container's GPUs from 0; the host's numbers hide them all",
    see="explanation/numbering.md#inside-a-container",
)
def check_inside_filters(facts: Facts) -> Finding | None:
    """Do variables inside hide GPUs that the container has?"""
    gpus, variables = facts.gpus_inside, facts.container.variables
    filters = {name: variables[name] for name in FILTERS if name in variables}
    if not gpus or not filters:
        return None
    inside = see_gpus(gpus, filters)
    effects = inside.effect_by_variable
    if name := inside.hidden_by:
        said = f"{name}={filters[name]} in {facts.container_name} {effects[name]}"
        return bad(said, fix=f"start it without {name}; AMD_VISIBLE_DEVICES chooses GPUs of the host")
    empty = next((name for name in (HIP, CUDA) if filters.get(name) == ""), "")
    if empty:
        return note(f"{empty}= in {facts.container_name} {effects[empty]}", fix=f"start it without {empty}")
    name, words = list(effects.items())[-1]
    if len(inside.hip_gpus) < len(gpus):
        return note(f"{name}={filters[name]} in {facts.container_name} {words}")
    return None


@check(
    why="the driver refuses a card that it cannot serve, and every GPU while one is being reset",
    see="reference/messages.md#the-driver-and-its-nodes",
)
def check_inside_gpu(facts: Facts) -> Finding | None:
    """Does the driver answer for the GPUs that the container may open?"""
    broken = [node for node in facts.container.nodes if node.errno and node.errno not in REPORTED_ELSEWHERE]
    if not broken:
        return None
    number = broken[0].errno or 0
    words = WORDS.get(number, os.strerror(number))
    return bad(
        f"{broken[0].path} does not open in {facts.container_name}: {words}", fix="sudo dmesg | grep -iE 'amdgpu|kfd'"
    )


@check(
    why="a program uses the first GPU that HIP lists; few images have code for integrated GPUs",
    see="explanation/numbering.md#inside-a-container",
)
def check_inside_integrated(facts: Facts) -> Finding | None:
    """Does a container use the integrated GPU instead of a card?"""
    integrated = {gpu.number: gpu for gpu in facts.gpus_inside if gpu.is_apu}
    if not integrated or not facts.gpus.cards:
        return None
    seen = see_gpus(facts.gpus_inside, facts.container.variables, processors=facts.gpus.processors).hip_gpus
    used = next((integrated[gpu.number] for gpu in seen if gpu.number in integrated), None)
    if used is None:
        return None
    targets = facts.container.image.targets
    if used.gfx_target and targets and not fits(used.gfx_target, targets):
        words = f"{facts.container_name} has GPU {used.number}, which is integrated"
        return bad(f"{words}; the image has no code for {used.gfx_target}", fix=facts.gpus.cards_fix)
    return _judge_order(facts.container_name, seen, set(integrated), facts.gpus.cards_fix)


def _judge_order(name: str, seen: Sequence[GpuLocation], integrated: set[int], fix: str) -> Finding:
    first = seen[0].number
    if first in integrated and not all(gpu.number in integrated for gpu in seen):
        return bad(f"HIP in {name} counts GPU {first} first, which is integrated, and cards behind it", fix=fix)
    numbers = ", ".join(str(gpu.number) for gpu in seen if gpu.number in integrated)
    return note(f"{name} uses GPU {numbers}, which is integrated", fix=fix)


@check(
    why="KFD refuses a process that may use none of its GPUs, even before it lists them",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_kfd(facts: Facts) -> Finding | None:
    """Does /dev/kfd have a GPU for this container?"""
    refused = facts.nodes_with(errno.EINVAL)
    if not refused:
        return None
    words = f"{refused[0].path} opens to {facts.container_name}, but KFD gives it no GPU"
    return bad(words, fix="give it a render node that belongs to a GPU of 'amd-ctk gpu list'")


@check(
    why="ROCm opens /dev/kfd and the render node of each GPU; without them it finds no GPU",
    see="how-to/troubleshoot.md#no-message-and-no-gpu",
)
def check_inside_nodes(facts: Facts) -> Finding | None:
    """Does the container have the nodes, and does the driver answer?"""
    inside = facts.inside
    if inside is None:
        return None
    if inside.problem:
        return not_checked(inside.problem, needs=inside.needs)
    stale = _find_stale(facts)
    if stale:
        return bad(stale, fix=f"restart {facts.container_name}, so that it gets the current numbers")
    # docker-gpus reports this.
    if facts.ignored_gpus_option:
        return None
    minors = {node.path: node.minor or 0 for node in inside.nodes if node.major == DRM_MAJOR}
    renamed = {path: minor for path, minor in minors.items() if path != f"{DRI}/renderD{minor}"}
    if words := describe_renamed(renamed, minors):
        return bad(f"in {facts.container_name}, {words}", fix=LEAVE_NAME)
    return _judge_paths(facts.container_name, [node.path for node in inside.nodes if node.major is not None])


def _find_stale(facts: Facts) -> str:
    """Return what is wrong with a device number in the container, "" if nothing is."""
    other = [node for node in facts.nodes_with(None) if node.major is not None]
    if other:
        return f"{other[0].path} is {other[0].number} in {facts.container_name}, but the host has no such GPU"
    dead = facts.nodes_with(errno.ENXIO, errno.ENODEV)
    # A simulated host has no driver that could answer.
    if dead and facts.container.has_driver:
        return f"{dead[0].path} is {dead[0].number} in {facts.container_name}, but no driver answers there"
    return ""


def _judge_paths(name: str, present: list[str]) -> Finding:
    words, fix = find_missing(name, present)
    if words:
        return bad(words, fix=fix)
    return ok(f"{name} has {KFD_PATH} and {len(present) - 1} render node{'s' if len(present) > 2 else ''}")


@check(
    engine="slurm",
    why="a container that another runtime starts in a job gets none of the job's GPUs, or GPUs of other jobs too",
    see="how-to/slurm.md#run-containers",
)
def check_inside_slurm(facts: Facts) -> Finding | None:
    """Does a container in a Slurm job have the GPUs of its job?"""
    variables = facts.container.variables
    job = parse_job({name: value for name, value in variables.items() if value})
    may_open = {node.minor for node in facts.permitted_nodes if node.path.startswith("/dev/dri/renderD")}
    # inside-nodes and inside-cgroup report GPUs that are missing altogether.
    if not (job or variables.get(NODE)) or not facts.slurm.files or not may_open:
        return None
    if job is None or not job.gpus:
        words = f"{facts.container_name} may open {len(may_open)} GPUs, but its Slurm job names no GPU"
        return note(words, fix=CONSTRAIN)
    try:
        given = {gpu.render_minor: gpu.number for gpu in select_gpus_of_job(job, facts.slurm.files, facts.gpus.gpus)}
    except SlurmError as error:
        return bad(error.message, fix="amd-ctk slurm status")
    lacking = [number for minor, number in given.items() if minor not in may_open]
    if lacking:
        words = f"Slurm gave the job GPU {min(lacking)}, but {facts.container_name} may not open it"
        return bad(words, fix="sudo amd-ctk runtime configure --runtime=slurm, and start the job again")
    if may_open - given.keys():
        words = f"{facts.container_name} may open {len(may_open)} GPUs, but its job has {len(given)}"
        return note(words, fix=CONSTRAIN)
    return ok(f"{facts.container_name} has the GPUs of its job")


@check(
    why="tools that read /sys instead of KFD list all GPUs of the host; rocminfo and HIP list the usable ones",
    see="explanation/access.md",
)
def check_inside_smi(facts: Facts) -> Finding | None:
    """Do tools inside list more GPUs than the container can use?"""
    given, total = len(facts.gpus_inside), len(facts.gpus.gpus)
    if not given or given == total:
        return None
    words = f"rocm-smi in {facts.container_name} may list {total} GPUs, but only {given} can be used"
    return note(words, fix="look at rocminfo")
