"""The one seam between this project and a machine: everything below `/sys`, `/dev`, `/etc`, `/var` and `/run`.

With a root other than `/` a directory of plain files is a GPU server; tests, the demo and users' own CI use that.
`/proc` is never re-rooted, because processes are always those of this machine.
"""

from __future__ import annotations

import os

from amdgpu_discovery.errors import ToolkitError

ROOT_VARIABLE = "AMD_CTK_HOST_ROOT"


class Host:
    """The file system of one machine, real or simulated.

    Paths are given as they are on that machine (`/sys/class/drm`). Symbolic links are followed as the operating
    system does, so a simulated host uses relative ones, as sysfs itself does.
    """

    __slots__ = ("root",)

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.path.abspath(root)

    def __repr__(self) -> str:
        return f"Host({self.root!r})"

    @property
    def is_this_machine(self) -> bool:
        """Whether paths are used as they stand; programs say in their log or output when they are not."""
        return self.root == "/"

    def path(self, path: str) -> str:
        """Return where `path` of that machine is on this one."""
        return path if self.root == "/" else self.root + path

    def read(self, path: str) -> bytes:
        """Return the content of a file; OSError as from the kernel (EPERM has a meaning in KFD topology)."""
        descriptor = os.open(self.path(path), os.O_RDONLY | os.O_CLOEXEC)
        try:
            chunks = [os.read(descriptor, 65536)]
            # sysfs files are one page; only an exactly full buffer can have more behind it.
            while len(chunks[-1]) == 65536:
                chunks.append(os.read(descriptor, 65536))
        finally:
            os.close(descriptor)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def read_attribute(self, path: str) -> str:
        """Return a sysfs attribute without its newline, "" where the kernel does not offer or refuses it."""
        try:
            return self.read(path).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory in no order, [] where there is none."""
        try:
            return os.listdir(self.path(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def link(self, path: str) -> str:
        """Return what a symbolic link says, "" where there is none."""
        try:
            return os.readlink(self.path(path))
        except OSError:
            return ""

    def stat(self, path: str) -> os.stat_result | None:
        """Return what `path` leads to, None where there is nothing."""
        try:
            return os.stat(self.path(path))
        except (FileNotFoundError, NotADirectoryError):
            return None


def host_from_environment(environment: os._Environ[str] | dict[str, str]) -> Host:
    """Make the host that a program serves; ToolkitError where the variable names no directory."""
    root = environment.get(ROOT_VARIABLE, "") or "/"
    if not os.path.isdir(root):
        raise ToolkitError(
            f"{ROOT_VARIABLE}={root} is not a directory",
            hint="build one with 'python -m amdgpu_discovery.simulate build PROFILE DIR' or unset the variable",
        )
    return Host(root)
