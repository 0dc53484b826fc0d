"""Checks of the GPUs and their device nodes, and of GPUs that are sick, lost or drained."""

from __future__ import annotations

from collections.abc import Sequence

from amd_ctk.doctor.check import Finding, bad, check, not_checked, note, ok
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.gpus import GROUP, TRIGGER, GpuCondition, GpuFacts
from amd_gpu_tracker import GpuState
from amdgpu_discovery.gpu import MEBIBYTE, NO_RENDER_NODE, Gpu, UnnumberedGpu

ASK_KERNEL = "sudo dmesg | grep -iE 'kfd|atomic'"
OTHER_KERNEL = "boot a kernel of a distribution, or one with CONFIG_HSA_AMD=y"
SMALL_CARVE_OUT = 4096
RAISE_LIMIT = (
    "boot with ttm.pages_limit=PAGES (of 4 KiB, without amdgpu.gttsize) to use more memory; if a program asks for VRAM,"
    " set aside more in the firmware"
)
SICK_PAGE = "how-to/service-gpus.md#a-gpu-is-sick"


@check(
    why="a GPU that KFD does not list can display but not compute, and no container can ask for it",
    see="explanation/numbering.md#gpus-without-a-number",
)
def check_kfd(facts: Facts) -> Finding | None:
    """Does the compute driver list the GPUs?"""
    if not facts.kernel.is_driver_loaded:
        return None
    if facts.gpus.closed_kfd:
        return not_checked(f"{facts.gpus.closed_kfd} cannot be read", needs="root, outside of containers")
    if facts.gpus.hidden:
        return note("the device cgroup of this process hides GPUs", fix="run it outside of containers")
    if facts.gpus.problem:
        return bad(facts.gpus.problem, fix="sudo dmesg | grep -iE 'kfd|amdgpu', then load the driver again or reboot")
    return _judge_half(facts.gpus) or _judge_listed(facts.gpus)


def _judge_half(gpus: GpuFacts) -> Finding | None:
    """Return a finding about a GPU that only one of the two halves of the driver has."""
    if not gpus.has_kfd and gpus.unnumbered:
        return bad(
            "this kernel has no compute driver (CONFIG_HSA_AMD), so GPUs can only drive displays", fix=OTHER_KERNEL
        )
    without_nodes = [gpu for gpu in gpus.unnumbered if gpu.reason == NO_RENDER_NODE]
    if without_nodes:
        words = f"KFD lists the GPU at {without_nodes[0].pci_address}, but /sys/class/drm has no render node of it"
        return bad(words, fix="sudo dmesg | grep -iE 'drm|amdgpu', then load the driver again or reboot")
    if gpus.left_over:
        words = f"KFD still lists the GPU at {gpus.left_over[0]}, which is gone, because a process holds it open"
        fix = "sudo fuser -v /dev/kfd, and end these processes"
        return note(words, fix=fix) if gpus.gpus else bad(words, fix=fix)
    return None


def _judge_listed(gpus: GpuFacts) -> Finding | None:
    unlisted = ", ".join(str(gpu.pci_address) for gpu in gpus.unnumbered)
    lost = ", ".join(str(gpu.pci_address) for gpu in gpus.unnumbered if _is_lost(gpu, gpus.gpus))
    if lost and gpus.gpus:
        return bad(f"KFD does not list the GPU at {lost}", fix=ASK_KERNEL)
    if unlisted and gpus.gpus:
        return note(f"KFD does not list the GPU at {unlisted}")
    if unlisted:
        # Either the slot lacks PCIe atomics, or ROCm does not know the card. The kernel's log says which.
        return bad(f"KFD lists no GPU, but the driver has {unlisted}", fix=ASK_KERNEL)
    if gpus.gpus:
        return ok(f"KFD lists {len(gpus.gpus)} GPU{'' if len(gpus.gpus) == 1 else 's'}")
    # `driver` reports GPUs that other drivers have.
    return None if gpus.foreign else note("amdgpu is loaded, but this host has no AMD GPU")


def _is_lost(unlisted: UnnumberedGpu, listed: Sequence[Gpu]) -> bool:
    """Return whether KFD should list a GPU: one like those it lists, or a card if it lists only integrated GPUs."""
    is_alike = unlisted.device_id in [gpu.device_id for gpu in listed]
    return (unlisted.device_id != 0 and is_alike) or all(gpu.is_apu for gpu in listed)


@check(
    why="a GPU that was lost or hangs in a reset answers with errors, and every program that opens it fails",
    see="reference/messages.md#the-driver-and-its-nodes",
)
def check_gpu_state(facts: Facts) -> Finding | None:
    """Do the GPUs answer?"""
    if not facts.kernel.is_driver_loaded or not facts.gpus.pci_functions:
        return None
    broken = facts.gpus.broken_attributes
    if broken:
        return bad(f"a GPU does not answer: {broken[0]}", fix="sudo dmesg | grep amdgpu, then reset it or reboot")
    # `gpu-health` reports how a sick GPU fails.
    return None if any(gpu.is_sick for gpu in facts.conditions) else ok("the driver answers for every GPU")


@check(why="a container's node is made from the host's", see="reference/messages.md#the-driver-and-its-nodes")
def check_nodes(facts: Facts) -> Finding | None:
    """Do the device nodes exist, with the driver's numbers?"""
    if not facts.gpus.gpus:
        return None
    problems = [problem for problem in facts.gpus.node_problems if not problem.is_partition]
    if facts.kernel.is_user_namespace and problems:
        return None
    if problems:
        return bad(problems[0].message, fix=problems[0].fix)
    if not facts.gpus.nodes:
        return not_checked("no GPU has nodes that could be looked at", needs="a GPU whose nodes are there")
    node = facts.gpus.nodes[-1]
    return ok(f"{len(facts.gpus.nodes)} nodes with the driver's numbers; {node.path} is {node.mode:04o}")


@check(why="programs reach a partition through its own render node", see="explanation/numbering.md")
def check_partitions(facts: Facts) -> Finding | None:
    """Do partitions have their nodes?"""
    partitions = [gpu for gpu in facts.gpus.gpus if gpu.partition_total > 1]
    if not partitions or facts.kernel.is_user_namespace:
        return None
    problems = [problem for problem in facts.gpus.node_problems if problem.is_partition]
    if problems:
        return bad(f"{len(problems)} partitions lack nodes: {problems[0].message}", fix=problems[0].fix)
    return ok(f"all {len(partitions)} partitions have their nodes")


@check(
    why="rootless engines, and --device, give a container the host's node with the host's mode",
    see="explanation/access.md",
)
def check_node_access(facts: Facts) -> Finding | None:
    """May the group of the nodes open them?"""
    if not facts.gpus.compute_nodes or facts.toolkit.is_access_reserved:
        return None
    directory = facts.gpus.closed_directory
    if directory:
        return bad(f"{directory} is closed to all users but root", fix=f"sudo chmod 755 {directory}")
    closed = [node for node in facts.gpus.closed_nodes if node.mode & GROUP != GROUP or node.gid == 0]
    if closed:
        words = f"{closed[0].path} has mode {closed[0].mode:04o} and group {_group(closed[0].gid, facts)}"
        return bad(f"{words}: only root may open it", fix=TRIGGER)
    groups = sorted({_group(node.gid, facts) for node in facts.gpus.closed_nodes})
    if len(groups) > 1:
        return bad(f"the nodes belong to several groups: {', '.join(groups)}", fix=TRIGGER)
    return ok("the nodes are open to " + (f"group {groups[0]}" if groups else "everyone"))


def _group(gid: int, facts: Facts) -> str:
    """Return the name of a group, its number if it has none."""
    return facts.gpus.group_names.get(gid, str(gid))


@check(
    why="with gpu-access = reserved, root owns the nodes; the list of each names the users who reserved its GPU",
    see="explanation/access.md#gpus-that-only-their-holder-opens",
)
def check_gpu_access(facts: Facts) -> Finding | None:
    """Can users open the GPUs that they reserved, and only those?"""
    toolkit = facts.toolkit
    if toolkit.access_obstacle:
        return bad(f"gpu-access is reserved, but {toolkit.access_obstacle}", fix=toolkit.access_fix)
    if toolkit.is_access_reserved and not toolkit.is_served:
        # The service would also correct the access lists of the nodes.
        words = "gpu-access is reserved, but the service that opens GPUs to their holders does not answer"
        return bad(words, fix=toolkit.service_fix)
    if toolkit.access_problem:
        verb = "set gpu-access reserved" if toolkit.is_access_reserved else "unset gpu-access"
        return bad(toolkit.access_problem, fix=f"sudo amd-ctk config {verb}")
    if not toolkit.is_access_reserved or not facts.gpus.gpus:
        return None
    return ok("only the user who reserved a GPU may open it; rootless engines need single nodes instead of /dev/dri")


@check(
    why="some programs count only the memory that the firmware set aside, and find the GPU too small",
    see="explanation/numbering.md",
)
def check_apu_memory(facts: Facts) -> Finding | None:
    """How much memory may an integrated GPU use?"""
    sizes = facts.gpus.carve_outs
    integrated = [gpu for gpu in facts.gpus.gpus if gpu.is_apu and gpu.vram_bytes and gpu.number in sizes]
    # Beside cards, programs use the cards and not a small integrated GPU.
    used = [gpu for gpu in integrated if not facts.gpus.cards or sizes[gpu.number] // MEBIBYTE >= SMALL_CARVE_OUT]
    found = (_judge_memory(gpu.number, sizes[gpu.number], gpu.vram_bytes or 0) for gpu in used)
    return next(filter(None, found), None)


def _judge_memory(number: int, carve_out: int, total: int) -> Finding | None:
    mib = carve_out // MEBIBYTE
    words = f"GPU {number} has {mib} MiB set aside, and may use {total // MEBIBYTE} MiB"
    if mib >= SMALL_CARVE_OUT:
        return ok(words) if total > carve_out else None
    if total > carve_out:
        # By default, the kernel's limit is half of the memory (ttm_tt.c). gttsize is deprecated, and the smaller of the
        # two counts.
        return note(words, fix=RAISE_LIMIT)
    # Since Linux 6.10 KFD counts system memory too.
    words = f"GPU {number} may use only the {mib} MiB set aside for it"
    return bad(words, fix="set aside more in the firmware, or run Linux 6.10 or later")


@check(
    why="`all` includes the integrated GPU, and a program that uses the first GPU may pick it",
    see="explanation/numbering.md#inside-a-container",
)
def check_integrated_gpu(facts: Facts) -> Finding | None:
    """Is there an integrated GPU beside a card?"""
    integrated = [str(gpu.number) for gpu in facts.gpus.gpus if gpu.is_apu]
    if not facts.gpus.cards or not integrated:
        return None
    return note(f"GPU {', '.join(integrated)} is integrated, and part of 'all'", fix=facts.gpus.cards_fix)


@check(
    why="the driver does not change the mode while processes use the GPU; a new mode changes which GPUs exist",
    see="reference/gpu-tracker.md#partition-modes",
)
def check_partition_mode(facts: Facts) -> Finding | None:
    """Can the partition mode of GPUs be changed?"""
    users = facts.toolkit.users_by_gpu
    can_change = [gpu.number for gpu in facts.gpus.gpus if gpu.compute_partition]
    names_by_gpu = {number: users[number] for number in can_change if number in users}
    if not names_by_gpu:
        return None
    numbers = " ".join(map(str, names_by_gpu))
    # A container may have several GPUs, so its name may occur several times.
    names = ", ".join(dict.fromkeys(name for names in names_by_gpu.values() for name in names.split(", ")))
    return note(f"GPUs [{numbers}] are in use by {names}: their partition mode cannot be changed now")


@check(
    why="every program fails on a GPU that its driver has given up; a GPU with errors is given out last", see=SICK_PAGE
)
def check_gpu_health(facts: Facts) -> Finding | None:
    """Are the GPUs well?"""
    if sick := _find(facts, GpuState.SICK):
        return bad(_describe(sick), fix="sudo dmesg | grep amdgpu, then reset the GPU or reboot")
    if suspect := _find(facts, GpuState.SUSPECT):
        return note(_describe(suspect), fix=_command("drain", suspect))
    return None


@check(
    why="requests for GPUs numbered after a lost one are refused, because the numbers now mean other GPUs",
    see="how-to/service-gpus.md#a-gpu-is-lost",
)
def check_gpu_lost(facts: Facts) -> Finding | None:
    """Are all tracked GPUs still present?"""
    lost = _find(facts, GpuState.LOST)
    return bad(_describe(lost), fix=_command("forget", lost)) if lost else None


@check(
    why="a program that was killed can leave memory in use for ever: free GPUs are chosen among the others",
    see="how-to/service-gpus.md#memory-that-no-process-holds",
)
def check_gpu_leaked(facts: Facts) -> Finding | None:
    """Does a process hold all memory that is in use?"""
    leaked = [gpu for gpu in facts.conditions if gpu.has_leaked]
    fix = "reset the GPU once nothing uses its board, or reboot"
    return note(_describe(leaked), fix=fix) if leaked else None


@check(why="a drained GPU is not given out until it is undrained", see="how-to/service-gpus.md#drain-a-gpu")
def check_gpu_drained(facts: Facts) -> Finding | None:
    """Is a GPU drained?"""
    drained = _find(facts, GpuState.DRAINED, GpuState.DRAINING)
    return note(_describe(drained), fix=_command("undrain", drained)) if drained else None


@check(
    why="an ended job has left a process or another partition mode, and the next job would find it",
    see="how-to/service-gpus.md#a-gpu-is-dirty",
)
def check_gpu_dirty(facts: Facts) -> Finding | None:
    """Did the last job leave its GPU as it found it?"""
    dirty = _find(facts, GpuState.DIRTY)
    numbers = ",".join(gpu.address or str(gpu.number) for gpu in dirty)
    return bad(_describe(dirty), fix=f"sudo amd-ctk gpu clean {numbers}") if dirty else None


def _find(facts: Facts, *states: str) -> list[GpuCondition]:
    return [gpu for gpu in facts.conditions if gpu.state in states]


def _describe(gpus: list[GpuCondition]) -> str:
    """Return a sentence that lists GPUs with the same state and reason together."""
    alike: dict[str, list[str]] = {}
    for gpu in gpus:
        alike.setdefault(f"{gpu.state}{f': {gpu.reason}' if gpu.reason else ''}", []).append(_name(gpu))
    return "; ".join(
        f"{'GPUs' if numbers[1:] else 'GPU'} {', '.join(numbers)} {'are' if numbers[1:] else 'is'} {words}"
        for words, numbers in alike.items()
    )


def _command(verb: str, gpus: list[GpuCondition]) -> str:
    return f"sudo amd-ctk gpu-tracker {verb} {','.join(gpu.address or str(gpu.number) for gpu in gpus)}"


def _name(gpu: GpuCondition) -> str:
    return f"{gpu.number} at {gpu.address}" if gpu.address else str(gpu.number)
