"""The list of mounts is read as the kernel writes it, whatever users call their directories."""

from __future__ import annotations

import pytest

from amdgpu_discovery.untrusted.mounts import Mount, parse_mounts, read_mounts

LINES = rb"""36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
41 36 0:50 / /home/ada/my\040files\134 rw,nosuid - fuse.sshfs ada@host: rw,user_id=1000,group_id=1000
"""


def test_each_line_is_a_mount():
    assert parse_mounts(LINES) == [
        Mount(number=36, root=b"/mnt1", point=b"/mnt2", kind=b"ext3", options=(b"rw", b"errors=continue")),
        Mount(
            number=41,
            root=b"/",
            point=b"/home/ada/my files\\",
            kind=b"fuse.sshfs",
            options=(b"rw", b"user_id=1000", b"group_id=1000"),
        ),
    ]


@pytest.mark.parametrize("character", [b"\r", b"\f", b"\v", b"\x1c", b"\xc2\x85"])
def test_a_directory_whose_name_looks_like_a_mount_is_none(character):
    point = b"/home/ada/x" + character + b"41 36 0:50 / /home/ada rw - ext4"
    line = b"41 36 0:50 / %s rw - fuse x rw,user_id=1000\n" % point.replace(b" ", rb"\040")

    (mount,) = parse_mounts(line)

    assert (mount.number, mount.point, mount.is_fuse) == (41, point, True)


def test_the_mounts_of_this_process_are_read():
    assert b"/proc" in [mount.point for mount in read_mounts()]
