"""Whether the user of a container may open the nodes that ROCm opens, and which of them are missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.value import Value

RESTART_HINT = "start it with --runtime=amd -e AMD_VISIBLE_DEVICES=all"
LEAVE_NAME = "leave its name as it is"
# linux/capability.h
CAP_DAC_OVERRIDE = 1
READ_AND_WRITE = 0o6


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


def closed_fix(node: NodeAccess, *, is_mapped: bool = False) -> str:
    """Return how to let a container's user open a node that its mode closes; in a user namespace, ids `is_mapped`."""
    if is_mapped:
        # A group that is added inside is another one on the host.
        return "use --runtime=amd or Docker's --userns=host; for rootless Podman, crun with --group-add=keep-groups"
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
