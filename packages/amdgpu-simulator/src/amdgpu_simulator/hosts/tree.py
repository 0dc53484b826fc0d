"""A directory tree as a value, and the function that writes it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from amdgpu_discovery.value import Value


class File(Value):
    """A plain file; `group` counts only if the writer is root."""

    content: bytes = b""
    mode: int = 0o644
    group: int | None = None


class Link(Value):
    """A symbolic link with its literal target, relative as in sysfs."""

    target: str


class Directory(Value):
    """A directory that may stay empty."""


class Pipe(Value):
    """A named pipe without a writer: reading it never ends."""


class Tree:
    """Files, links and directories by their path on the simulated host."""

    def __init__(self) -> None:
        self.entries: dict[str, File | Link | Directory | Pipe] = {}

    def add_attributes(self, directory: str, attributes: Mapping[str, object]) -> None:
        """Add sysfs attributes: each is one line, and numbers are decimal."""
        for name, value in attributes.items():
            self.entries[f"{directory}/{name}"] = File(content=f"{value}\n".encode())

    def add_file(self, path: str, content: bytes = b"", *, mode: int = 0o644, group: int | None = None) -> None:
        """Add a file."""
        self.entries[path] = File(content=content, mode=mode, group=group)

    def add_link(self, path: str, destination: str) -> None:
        """Add a relative link to `destination`, a path on the simulated host.

        As in sysfs, the link ends in the destination's name, even if that is above the link.
        """
        parent, name = os.path.split(destination)
        way = os.path.relpath(parent, os.path.dirname(path))
        self.entries[path] = Link(target=os.path.normpath(f"{way}/{name}"))

    def add_directory(self, path: str) -> None:
        """Add a directory, which may stay empty."""
        self.entries[path] = Directory()


def write_tree(tree: Tree, root: str) -> None:
    """Write everything below `root`, which exists and has none of it yet. Raises OSError."""
    made = {root}
    for path, entry in tree.entries.items():
        real_path = root + path
        if isinstance(entry, Directory):
            _make_directory(real_path, made)
            continue
        _make_directory(os.path.dirname(real_path), made)
        if isinstance(entry, Link):
            os.symlink(entry.target, real_path)
        elif isinstance(entry, Pipe):
            os.mkfifo(real_path)
        else:
            _write_file(entry, real_path)


def _make_directory(path: str, made: set[str]) -> None:
    if path not in made:
        _make_directory(os.path.dirname(path), made)
        os.mkdir(path)
        made.add(path)


def _write_file(file: File, real_path: str) -> None:
    descriptor = os.open(real_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file.mode)
    try:
        os.write(descriptor, file.content)
        if file.group is not None:
            _set_access(descriptor, file)
    finally:
        os.close(descriptor)


def _set_access(descriptor: int, file: File) -> None:
    # Only root can give files away. Other users see their own group where the profile has "render".
    if os.geteuid() == 0:
        # The root of `unshare --map-root-user` has one group, and the others do not exist.
        with suppress(OSError):
            os.fchown(descriptor, 0, file.group or 0)
    # Again, because the umask removed some bits.
    os.fchmod(descriptor, file.mode)
