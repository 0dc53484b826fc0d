"""Close the nodes of AMD GPUs to users who have not reserved them, and return them to their groups.

This writes access control lists in the kernel's format, so `setfacl` is not needed.
"""

from __future__ import annotations

import os
import struct
from contextlib import suppress

from amd_gpu_tracker.book.state import RULE_FILE
from amd_gpu_tracker.claims.closed_nodes import ACCESS_LIST, NO_LIST
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.driver.drm import DrmDevice, amdgpu_pci_addresses, read_drm_devices
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import PERMISSIONS, make_directories, remove_file, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from amdgpu_discovery.host import Host

# Partitions are platform devices without a driver. A mode of 0600 would mask the entries of users.
RULE = """\
# Only users who reserved an AMD GPU may open it. Made by 'amd-ctk config set gpu-access reserved', which
# 'amd-ctk config unset gpu-access' undoes.
#
# Read after 70-uaccess.rules, which wants to give nodes to whoever sits at the machine, and before 73-seat-late.rules,
# which does so for every device that ever had the tag. So what is run here is final; logind goes by the tags of now.

ACTION=="remove", GOTO="amd_gpu_access_end"
SUBSYSTEM=="kfd", GOTO="amd_gpu_access"
SUBSYSTEM!="drm", GOTO="amd_gpu_access_end"
KERNEL!="card[0-9]*|renderD[0-9]*", GOTO="amd_gpu_access_end"
DRIVERS=="amdgpu", GOTO="amd_gpu_access"
KERNELS=="amdgpu_xcp*", GOTO="amd_gpu_access"
GOTO="amd_gpu_access_end"

LABEL="amd_gpu_access"
OWNER:="root", GROUP:="root", MODE:="0660", TAG-="uaccess", TAG-="xaccess-render", RUN:="/bin/true"

LABEL="amd_gpu_access_end"
"""
# As in systemd's 50-udev-default.rules. A closed node's group and its list decide who may open it.
MODE = 0o660
GROUPS = {"render": ("render", "video"), "card": ("video",)}
UDEV_SECONDS = 30.0
UDEV_CONTROL = "/run/udev/control"
# From include/uapi/linux/posix_acl_xattr.h: a version, then entries of a tag, permissions and an id.
HEADER = struct.Struct("<I")
ENTRY = struct.Struct("<HHI")
VERSION = 2
OWNER, USER, GROUP, MASK, OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
READ_WRITE = 6
NO_ID = 0xFFFFFFFF


def find_devices(host: Host) -> list[DrmDevice]:
    """Return the devices of the amdgpu driver that have nodes, including unused partitions."""
    functions = set(amdgpu_pci_addresses(host))
    return [each for each in read_drm_devices(host) if each.is_partition or each.pci_address in functions]


def find_nodes(host: Host) -> dict[str, str]:
    """Return the existing nodes of the amdgpu driver, each with its kind: `render` or `card`."""
    kinds = {KFD_PATH: "render"}
    for device in find_devices(host):
        kinds.update({f"/dev/dri/renderD{device.render_minor}": "render"} if device.render_minor is not None else {})
        kinds.update({f"/dev/dri/card{device.card_minor}": "card"} if device.card_minor is not None else {})
    return {path: kind for path, kind in kinds.items() if host.stat(path)}


def find_open(host: Host) -> str:
    """Return what changed since `close_nodes`: the rule, or a node's owner, group or mode; "" for nothing."""
    if not is_closed(host) or host.read(RULE_FILE) != RULE.encode():
        return f"{RULE_FILE} is missing or was changed"
    for node in find_nodes(host):
        status = host.stat(node)
        if status and (status.st_uid, status.st_gid, status.st_mode & PERMISSIONS) != (0, 0, MODE):
            return f"{node} has mode {status.st_mode & PERMISSIONS:04o} and is of group {status.st_gid}"
    return ""


def is_closed(host: Host) -> bool:
    """Return whether the nodes were closed and not given back."""
    return host.stat(RULE_FILE) is not None


def close_nodes(host: Host, users: Mapping[str, Collection[int]]) -> None:
    """Let only root open the nodes, now and whenever udev sets them up; FileError, with nothing changed.

    `users` have reserved GPUs and may continue to open these nodes. The broker adds later users.
    """
    path = host.path(RULE_FILE)
    try:
        make_directories(os.path.dirname(path))
        replace_file(path, RULE.encode(), mode=0o644, durable=True)
        nodes = find_nodes(host)
        for node in nodes:
            _own(host.path(node), 0)
            _set_list(host.path(node), users.get(node, ()))
    except OSError as error:
        give_back(host)
        raise FileError(f"the nodes of the GPUs cannot be closed: {reason(error)}") from error
    # The access that logind gave to the user at the machine is gone; udev must learn to give no more.
    _notify_udev(host, nodes)


def give_back(host: Host) -> bool:
    """Let the groups of the nodes open them again, as in udev's own rules; False if they were not closed."""
    if not is_closed(host):
        return False
    remove_file(host.path(RULE_FILE))
    nodes = find_nodes(host)
    for node, kind in nodes.items():
        # A node that has disappeared meanwhile needs nothing.
        with suppress(FileNotFoundError):
            set_users(host.path(node), ())
            _own(host.path(node), _find_group(GROUPS[kind]))
    _notify_udev(host, nodes)
    return True


def format_acl(uids: Iterable[int]) -> bytes:
    """Return the list that lets these users open a node of mode 0660."""
    users = [(USER, READ_WRITE, uid) for uid in sorted(set(uids))]
    around = [(OWNER, READ_WRITE, NO_ID), *users, (GROUP, READ_WRITE, NO_ID), (MASK, READ_WRITE, NO_ID)]
    return HEADER.pack(VERSION) + b"".join(ENTRY.pack(*entry) for entry in (*around, (OTHERS, 0, NO_ID)))


def parse_users(content: bytes) -> frozenset[int]:
    """Return the users in a list; none if it is of another version."""
    if HEADER.unpack_from(content.ljust(HEADER.size, b"\0")) != (VERSION,):
        return frozenset()
    whole = len(content) - (len(content) - HEADER.size) % ENTRY.size
    return frozenset(uid for tag, _, uid in ENTRY.iter_unpack(content[HEADER.size : whole]) if tag == USER)


def read_users(path: str) -> frozenset[int]:
    """Return the users in the list of a node; OSError."""
    return parse_users(_read(path))


def set_users(path: str, uids: Iterable[int]) -> bool:
    """Let only these users open a node besides its owner and group; return whether this changed it; OSError."""
    uids = list(uids)
    wanted = format_acl(uids) if uids else b""
    found = _read(path)
    if wanted == found:
        return False
    if wanted:
        os.setxattr(path, ACCESS_LIST, wanted, follow_symlinks=False)
    else:
        os.removexattr(path, ACCESS_LIST, follow_symlinks=False)
    return True


def _own(path: str, gid: int) -> None:
    os.chown(path, 0, gid, follow_symlinks=False)
    os.chmod(path, MODE)


def _set_list(path: str, uids: Collection[int]) -> None:
    """Let these users open a node; OSError, even without users, if its file system supports no lists."""
    set_users(path, (0, *uids))
    set_users(path, uids)


def _find_group(names: Sequence[str]) -> int:
    import grp

    for name in names:
        with suppress(KeyError):
            return grp.getgrnam(name).gr_gid
    return 0


def _notify_udev(host: Host, nodes: Sequence[str] | dict[str, str]) -> None:
    """Let udev read its rules again and set up these nodes, if it is running."""
    if not host.is_this_machine or host.stat(UDEV_CONTROL) is None:
        return
    import subprocess

    names = [f"--name-match={node}" for node in nodes]
    quiet = subprocess.DEVNULL
    for words in (("control", "--reload"), ("trigger", "--action=change", "--settle", *names)):
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                ("udevadm", *words), check=False, stdin=quiet, stdout=quiet, stderr=quiet, timeout=UDEV_SECONDS
            )


def _read(path: str) -> bytes:
    try:
        return os.getxattr(path, ACCESS_LIST, follow_symlinks=False)
    except OSError as error:
        if error.errno in NO_LIST:
            return b""
        raise
