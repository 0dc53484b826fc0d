"""What ROCm inside a container makes of its GPUs: whether its user may open their nodes, and how GPUs are counted.

ROCr counts GPUs in the order of KFD's nodes. HIP counts those that ROCr leaves. A word that names no GPU ends the list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from amdgpu_discovery.device_nodes import KFD_PATH
from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.selection import parse_unique_id
from amdgpu_discovery.value import Value

RESTART_HINT = "start it with --runtime=amd -e AMD_VISIBLE_DEVICES=all"
LEAVE_NAME = "leave its name as it is"
# linux/capability.h
CAP_DAC_OVERRIDE = 1
READ_AND_WRITE = 0o6
ROCR = "ROCR_VISIBLE_DEVICES"
HIP = "HIP_VISIBLE_DEVICES"
# HIP reads this if its own variable is not set.
CUDA = "CUDA_VISIBLE_DEVICES"
FILTERS = (ROCR, HIP, CUDA)


class NodeAccess(Value):
    """The mode and the owner of a node in a container."""

    path: str
    mode: int = 0
    uid: int = 0
    gid: int = 0

    @property
    def with_owner(self) -> str:
        """Return the path with the mode and the owner."""
        return f"{self.path}, which is {self.mode:04o} {self.uid}:{self.gid}"


class ProcessUser(Value):
    """The user of a process: `groups` are those beside `gid`, `capabilities` is the effective set as a mask."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    capabilities: int = 0

    def has_capability(self, number: int) -> bool:
        """Return whether the process has a capability, by its number in linux/capability.h."""
        return bool(self.capabilities >> number & 1)


def mode_allows(node: NodeAccess, user: ProcessUser) -> bool:
    """Return whether a node's mode, owner and group let a process read and write it."""
    if user.has_capability(CAP_DAC_OVERRIDE):
        return True
    if user.uid == node.uid:
        bits = node.mode >> 6
    elif node.gid in (user.gid, *user.groups):
        bits = node.mode >> 3
    else:
        bits = node.mode
    return bits & READ_AND_WRITE == READ_AND_WRITE


def describe_closed(node: NodeAccess, user: ProcessUser) -> str:
    """Return a clause that a user may not open a node, with the node's mode and owner."""
    groups = " ".join(map(str, dict.fromkeys((user.gid, *user.groups))))
    return f"user {user.uid} with groups {groups} may not open {node.with_owner}"


def closed_fix(node: NodeAccess) -> str:
    """Return how to let a container's user open a node that its mode closes."""
    return f"use --runtime=amd, or add --group-add {node.gid}" if node.gid else "use --runtime=amd"


def find_missing(name: str, present: Sequence[str]) -> tuple[str, str]:
    """Return what a container with these nodes lacks, and how to add it; "" for both if it lacks nothing."""
    if not present:
        return f"{name} was given no GPU: it has no {KFD_PATH} and no render node", RESTART_HINT
    if KFD_PATH not in present:
        return f"{name} has no {KFD_PATH}", f"give it {KFD_PATH} too, or {RESTART_HINT}"
    if list(present) == [KFD_PATH]:
        return f"{name} has {KFD_PATH} and no render node", RESTART_HINT
    return "", ""


def describe_renamed(minor_by_path: Mapping[str, int], present: Collection[str]) -> str:
    """Return which of these render nodes ROCm does not find, because it opens renderD<minor>; "" for none.

    `present` are the paths of all nodes: beside the right name, a second one does no harm.
    """
    for path, minor in sorted(minor_by_path.items()):
        right = f"/dev/dri/renderD{minor}"
        if right not in present or right in minor_by_path:
            return f"{path} is {DRM_MAJOR}:{minor}: ROCm opens the node of this GPU as {right}"
    return ""


class Inside(Value):
    """The GPUs in the order of HIP, and what each variable that filters GPUs does."""

    hip_gpus: tuple[GpuLocation, ...]
    effect_by_variable: dict[str, str]


def apply_filters(gpus: Sequence[GpuLocation], environment: Mapping[str, str]) -> Inside:
    """Return what programs in a container with these GPUs see."""
    visible = sorted(gpus, key=lambda gpu: gpu.kfd_node)
    words: dict[str, str] = {}
    if ROCR in environment:
        visible, words[ROCR] = _filter(visible, environment[ROCR], "ROCm", by_id=True)
    hip = HIP if HIP in environment else CUDA
    if hip in environment:
        visible, words[hip] = _filter(visible, environment[hip], "HIP", by_id=False)
    if hip == HIP and CUDA in environment:
        words[CUDA] = f"not counted: {HIP} is set"
    return Inside(hip_gpus=tuple(visible), effect_by_variable=words)


def _filter(visible: Sequence[GpuLocation], value: str, counter: str, *, by_id: bool) -> tuple[list[GpuLocation], str]:
    left = _select(visible, value, by_id=by_id)
    numbers = ", ".join(str(gpu.number) for gpu in left)
    if not visible:
        return left, "hides nothing: the container has no GPU"
    if not left:
        return left, f"hides everything: {_count(len(visible), counter)}"
    if len(left) == len(visible):
        return left, f"hides nothing: {_count(len(visible), counter)}"
    return left, f"leaves GPU{'s' if len(left) > 1 else ''} {numbers} of this host: {_count(len(visible), counter)}"


def _count(total: int, counter: str) -> str:
    if total == 1:
        return f"the container sees one GPU, which {counter} counts 0"
    return f"the container sees {total} GPUs, which {counter} counts 0-{total - 1}"


def _select(visible: Sequence[GpuLocation], value: str, *, by_id: bool) -> list[GpuLocation]:
    left: list[GpuLocation] = []
    for word in value.split(","):
        gpu = _find(visible, word.strip(), by_id=by_id)
        if gpu is None or gpu in left:
            break
        left.append(gpu)
    return left


def _find(visible: Sequence[GpuLocation], word: str, *, by_id: bool) -> GpuLocation | None:
    if word.isascii() and word.isdecimal() and len(word) < len("10000"):
        return visible[int(word)] if int(word) < len(visible) else None
    unique_id = parse_unique_id(word) if by_id and word.upper().startswith("GPU-") else None
    return next((gpu for gpu in visible if unique_id and unique_id == gpu.kfd_unique_id), None)
