"""Access control lists of device nodes, as the kernel keeps them; so `setfacl` is not needed."""

from __future__ import annotations

import errno
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NAME = "system.posix_acl_access"
# Of include/uapi/linux/posix_acl_xattr.h: a version, then a tag, permissions and an id in each entry.
HEADER = struct.Struct("<I")
ENTRY = struct.Struct("<HHI")
VERSION = 2
OWNER, USER, GROUP, MASK, OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
READ_WRITE = 6
NO_ID = 0xFFFFFFFF
NOT_THERE = (errno.ENODATA, errno.EOPNOTSUPP)


def format_acl(uids: Iterable[int]) -> bytes:
    """Return the list that lets these users open a node of mode 0660."""
    users = [(USER, READ_WRITE, uid) for uid in sorted(set(uids))]
    around = [(OWNER, READ_WRITE, NO_ID), *users, (GROUP, READ_WRITE, NO_ID), (MASK, READ_WRITE, NO_ID)]
    return HEADER.pack(VERSION) + b"".join(ENTRY.pack(*entry) for entry in (*around, (OTHERS, 0, NO_ID)))


def parse_users(content: bytes) -> frozenset[int]:
    """Return the users whom a list names; none where it is of another version."""
    if HEADER.unpack_from(content.ljust(HEADER.size, b"\0")) != (VERSION,):
        return frozenset()
    whole = len(content) - (len(content) - HEADER.size) % ENTRY.size
    return frozenset(uid for tag, _, uid in ENTRY.iter_unpack(content[HEADER.size : whole]) if tag == USER)


def read_users(path: str) -> frozenset[int]:
    """Return the users whom the list of a node names; OSError."""
    return parse_users(_read(path))


def set_users(path: str, uids: Iterable[int]) -> bool:
    """Let these users open a node beside its owner and group, and no others; return whether that is new; OSError."""
    uids = list(uids)
    wanted, found = format_acl(uids) if uids else b"", _read(path)
    if wanted == found:
        return False
    if wanted:
        os.setxattr(path, NAME, wanted, follow_symlinks=False)
    else:
        os.removexattr(path, NAME, follow_symlinks=False)
    return True


def _read(path: str) -> bytes:
    try:
        return os.getxattr(path, NAME, follow_symlinks=False)
    except OSError as error:
        if error.errno in NOT_THERE:
            return b""
        raise
