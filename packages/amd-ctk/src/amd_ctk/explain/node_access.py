"""Has a container the nodes that ROCm opens, and may its user open them?"""

from __future__ import annotations

from collections.abc import Sequence

from amdgpu_discovery.device_nodes import KFD_PATH
from amdgpu_discovery.value import Value

AGAIN = "start it with --runtime=amd -e AMD_VISIBLE_DEVICES=all"
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
    def access_words(self) -> str:
        """Return mode and owner as people read them."""
        return f"{self.mode:04o} {self.uid}:{self.gid}"


class ProcessUser(Value):
    """As whom a process opens nodes: `groups` are those beside `gid`, `capabilities` is the effective set as a mask."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()
    capabilities: int = 0

    def has_capability(self, number: int) -> bool:
        """Return whether it has a capability, by its number in linux/capability.h."""
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


def closed_words(node: NodeAccess, user: ProcessUser) -> str:
    """Return who may not open a node, and whose it is."""
    groups = " ".join(map(str, dict.fromkeys((user.gid, *user.groups))))
    return f"user {user.uid} with groups {groups} may not open {node.path}, which is {node.access_words}"


def closed_fix(node: NodeAccess) -> str:
    """Return what lets a container's user open a node that its mode closes."""
    return f"use --runtime=amd, or add --group-add {node.gid}" if node.gid else "use --runtime=amd"


def find_missing(name: str, present: Sequence[str]) -> tuple[str, str]:
    """Return which node a container lacks that has these, and what to do; "" for both where it has them."""
    if not present:
        return f"{name} was given no GPU: it has no {KFD_PATH} and no render node", AGAIN
    if KFD_PATH not in present:
        return f"{name} has no {KFD_PATH}", f"give it {KFD_PATH} too, or {AGAIN}"
    if list(present) == [KFD_PATH]:
        return f"{name} has {KFD_PATH} and no render node", AGAIN
    return "", ""
