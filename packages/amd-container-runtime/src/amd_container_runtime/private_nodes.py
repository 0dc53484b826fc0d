"""Device nodes that every user may open, for containers with their own user namespace.

runc binds the host's node into such a container, with the host's mode and owner. No user inside is in the host's render
group, and the container's root is not the host's root. So these containers get other nodes with the same numbers and
mode 0666. There is one set of them, which lasts until the next boot, like everything in /dev.

Only root may enter their directory; otherwise every local user could use all GPUs. The container's device cgroup still
decides which of them it may open.
"""

from __future__ import annotations

import posix

from amd_device_spec.oci import PRIVATE_NODES
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import CHARACTER_DEVICE, DIRECTORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.gpu import DeviceNode
    from amdgpu_discovery.host import Host

ONLY_ROOT = 0o700
OPEN_MODE = 0o666
# In no container's uid map, so that no container's root can change the mode of a node that others use too.
OWNER = 2**32 - 2
# The attribute by which SELinux knows what a node is; hosts without SELinux do not have it.
LABEL = "security.selinux"


def make_private_nodes(host: Host, nodes: Iterable[DeviceNode]) -> dict[str, str]:
    """Return, by the path of each node, the path of one with its number that all may open. Raises FileError.

    Returns {} if this process may not make device nodes, as in a user namespace.
    """
    directory = host.path(PRIVATE_NODES)
    try:
        _make_directory(directory)
        return {node.path: _make_node(directory, node, label=_label_of(host.path(node.path))) for node in nodes}
    except PermissionError:
        return {}
    except OSError as error:
        raise FileError(f"no device nodes can be made in {directory}: {reason(error)}") from error


def _make_directory(directory: str) -> None:
    try:
        posix.mkdir(directory, ONLY_ROOT)
    except FileExistsError:
        found = posix.lstat(directory)
        if (found.st_mode, found.st_uid) != (DIRECTORY | ONLY_ROOT, posix.geteuid()):
            raise FileError(
                f"{directory} is not a directory of mode 0700 that belongs to root",
                hint="remove it; the next container with a user namespace makes it",
            ) from None


def _label_of(path: str) -> bytes:
    try:
        return posix.getxattr(path, LABEL)
    except OSError:
        return b""


def _make_node(directory: str, node: DeviceNode, *, label: bytes) -> str:
    """Make a node, completely or not at all. It is named after its number, so a node that exists is always right.

    If two containers start at once, both may make it, and the later replaces it with the same.
    """
    path = f"{directory}/{node.major}:{node.minor}"
    device = posix.makedev(node.major, node.minor)
    if _is_private_node(path, device):
        return path
    temporary = f"{path}.{posix.getpid()}.tmp"
    # A killed process with the same pid may have left this file. No other process uses this name.
    _remove(temporary)
    posix.mknod(temporary, CHARACTER_DEVICE, device)
    try:
        if label:
            posix.setxattr(temporary, LABEL, label)
        posix.chmod(temporary, OPEN_MODE)
        posix.chown(temporary, OWNER, 0)
        posix.rename(temporary, path)
    except BaseException:
        _remove(temporary)
        raise
    return path


def _is_private_node(path: str, device: int) -> bool:
    try:
        found = posix.lstat(path)
    except FileNotFoundError:
        return False
    return (found.st_mode, found.st_rdev, found.st_uid) == (CHARACTER_DEVICE | OPEN_MODE, device, OWNER)


def _remove(path: str) -> None:
    try:
        posix.unlink(path)
    except FileNotFoundError:
        return
