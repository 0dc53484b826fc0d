"""Reads which mounts a process sees. Users mount file systems, too, and choose the names of their directories."""

from __future__ import annotations

from amdgpu_discovery.files import read_file
from amdgpu_discovery.value import Value

OWN_MOUNTS = "/proc/self/mountinfo"
# The kernel allows 100,000 mounts (fs.mount-max), but each path may have 4096 bytes, and those of a container are its
# user's. Docker's need one or two KiB each.
LARGEST_MOUNTS = 64 * 1024 * 1024


class Mount(Value):
    """A mount, as proc(5) describes it.

    Attributes:
        number: Its id, which stands in /proc/PID/fdinfo, too.
        root: The directory of its file system that it shows.
        point: Where it is, as the process sees it.
        kind: The type of its file system, such as `ext4` or `fuse.sshfs`.
        options: The options of its file system, without those of the mount.
    """

    number: int
    root: bytes
    point: bytes
    kind: bytes
    options: tuple[bytes, ...]

    @property
    def is_fuse(self) -> bool:
        """Return whether a program serves its file system. It may be a user's, and may never answer."""
        return self.kind.startswith(b"fuse")


def read_mounts(path: str = OWN_MOUNTS) -> list[Mount]:
    """Return the mounts in a file /proc/PID/mountinfo, in its order; OSError."""
    return parse_mounts(read_file(path, largest=LARGEST_MOUNTS))


def parse_mounts(content: bytes) -> list[Mount]:
    """Return the mounts in the content of /proc/PID/mountinfo."""
    # Only a newline ends a line: the kernel does not escape a form feed or a carriage return in a path.
    return [_parse_mount(line) for line in content.split(b"\n") if line]


def _parse_mount(line: bytes) -> Mount:
    before, _, behind = line.partition(b" - ")
    number, _, _, root, point = before.split(b" ")[:5]
    kind, _, options = behind.split(b" ", 2)
    return Mount(
        number=int(number),
        root=_without_escapes(root),
        point=_without_escapes(point),
        kind=kind,
        options=tuple(options.split(b",")),
    )


def _without_escapes(path: bytes) -> bytes:
    """Return a path without the kernel's escapes of blanks, tabs, newlines and backslashes: three octal digits."""
    if b"\\" not in path:
        return path
    # Few paths have one.
    import re

    return re.sub(rb"\\([0-3][0-7]{2})", lambda match: bytes([int(match[1], 8)]), path)
