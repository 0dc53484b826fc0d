"""Find which processes have DRM nodes open, and what each of these opens uses.

Whose descriptors may be read is the kernel's decision (ptrace(2), PTRACE_MODE_READ_FSCREDS): users see those of their
own processes, root sees all. A process may end between any two steps.
"""

from __future__ import annotations

import posix

from amdgpu_discovery.files import read_file
from amdgpu_discovery.usage.fdinfo import parse_fdinfo
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amdgpu_discovery.usage.fdinfo import DrmClient

DRI = "/dev/dri/"
# What is looked at of one process, which may open as many files as its limits allow.
MOST_DESCRIPTORS = 65536
# Of DRM nodes among them: for each the kernel walks the buffers of the client.
MOST_NODES = 1024
# Many times what DRM prints.
LARGEST_FDINFO = 16384
# PF_KTHREAD of include/linux/sched.h; threads of the kernel have no descriptors.
KERNEL_THREAD = 0x00200000
FLAGS_FIELD = 6


class NodeUse(Value):
    """A process and one client of DRM that it holds.

    Attributes:
        pid: Id of the process.
        node: Name of the node that is open, such as `renderD128`.
        client: What the client uses.
    """

    pid: int
    node: str
    client: DrmClient


class DrmScan(Value):
    """The clients of DRM.

    Attributes:
        uses: Every process with each of its clients; one client may be held by several processes.
        refused: Processes that the caller may not look into.
        cut_short: Processes with more descriptors than are looked at.
    """

    uses: tuple[NodeUse, ...] = ()
    refused: tuple[int, ...] = ()
    cut_short: tuple[int, ...] = ()


def scan_drm_clients(proc: str) -> DrmScan:
    """Return the clients of amdgpu that processes in `proc` hold, by process id."""
    uses: list[NodeUse] = []
    refused: list[int] = []
    cut_short: list[int] = []
    for pid in sorted(int(name) for name in posix.listdir(proc) if name.isdecimal()):
        try:
            nodes, is_cut = _find_nodes(f"{proc}/{pid}/fd")
        except PermissionError:
            refused.append(pid)
            continue
        except OSError:
            # It has ended.
            continue
        if nodes:
            uses += _read_clients(proc, pid, nodes[:MOST_NODES])
        if is_cut or len(nodes) > MOST_NODES:
            cut_short.append(pid)
    theirs = tuple(pid for pid in refused if not _is_of_kernel(proc, pid))
    return DrmScan(uses=tuple(uses), refused=theirs, cut_short=tuple(cut_short))


def _find_nodes(directory: str) -> tuple[list[tuple[str, str]], bool]:
    """Return descriptors with the DRM nodes that they lead to, and whether there are more descriptors; OSError."""
    found: list[tuple[str, str]] = []
    # By a descriptor of the directory: the kernel looks up /proc, the process and `fd` once and not for each.
    handle = posix.open(directory, posix.O_RDONLY | posix.O_DIRECTORY | posix.O_CLOEXEC)
    try:
        names = posix.listdir(handle)
        for name in names[:MOST_DESCRIPTORS]:
            try:
                target = posix.readlink(name, dir_fd=handle)
            except OSError:
                continue
            if target.startswith(DRI):
                found.append((name, target.removeprefix(DRI)))
    finally:
        posix.close(handle)
    return found, len(names) > MOST_DESCRIPTORS


def _read_clients(proc: str, pid: int, nodes: list[tuple[str, str]]) -> Iterator[NodeUse]:
    for descriptor, node in nodes:
        try:
            content = read_file(f"{proc}/{pid}/fdinfo/{descriptor}", largest=LARGEST_FDINFO)
        except OSError:
            continue
        client = parse_fdinfo(content)
        if client is not None:
            yield NodeUse(pid=pid, node=node, client=client)


def _is_of_kernel(proc: str, pid: int) -> bool:
    """Return whether a process is a thread of the kernel, or gone."""
    try:
        flags = read_file(f"{proc}/{pid}/stat").rpartition(b")")[2].split()[FLAGS_FIELD]
    except (OSError, IndexError):
        return True
    return flags.isdigit() and bool(int(flags) & KERNEL_THREAD)
