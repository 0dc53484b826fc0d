"""The one seam between this project and a machine: everything below `/sys`, `/dev`, `/etc`, `/var` and `/run`.

With a root other than `/`, a directory of plain files acts as a GPU server. Tests, the demo and users' own CI use that.
`/proc` is never re-rooted, because processes are always those of this machine.
"""

from __future__ import annotations

import posix
import sys

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import absolute, is_directory, read_file, read_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Mapping

# The content of /proc/self/uid_map outside of every user namespace (user_namespaces(7)): all ids map to themselves.
IDENTITY_UID_MAP = "0 0 4294967295"
# Has no effect on files. Without it, open(2) of a named pipe waits for a writer.
NONBLOCK = posix.O_NONBLOCK
ROOT_VARIABLE = "AMD_CTK_HOST_ROOT"
# A program prints this on standard error before it changes such a host.
SIMULATED_NOTICE = "Working on the simulated host {root}, not on this machine"


class Host:
    """The file system of one machine, real or simulated.

    Paths are those of that machine (`/sys/class/drm`). The operating system follows symbolic links, so a simulated host
    uses relative ones, as sysfs itself does.

    Attributes:
        root: Absolute path of the directory that is `/` of that machine.
    """

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        """Use the machine whose root directory is `root`; by default this one."""
        self.root = absolute(posix.fspath(root))

    def __repr__(self) -> str:
        return f"Host({self.root!r})"

    @property
    def is_this_machine(self) -> bool:
        """Whether paths are used unchanged; if not, programs mention that in their log or output."""
        return self.root == "/"

    def path(self, path: str) -> str:
        """Return the path on this machine for a `path` of that machine."""
        return path if self.root == "/" else self.root + path

    def given(self, path: str) -> str:
        """Return the path on that machine for a path that a user gave; if it is below the root, the root is removed."""
        path = absolute(path)
        return path if self.root == "/" or not path.startswith(f"{self.root}/") else path[len(self.root) :]

    def read(self, path: str) -> bytes:
        """Return the content of a file; OSError as from the kernel (EPERM has a meaning in KFD topology)."""
        return read_file(self.path(path), flags=NONBLOCK)

    def read_attribute(self, path: str) -> str:
        """Return a sysfs attribute without its newline, "" if the kernel does not have it or refuses to read it."""
        try:
            return self.read(path).decode("utf-8", "replace").strip()
        except OSError:
            return ""

    def read_each(self, paths: Iterable[str]) -> list[bytes | OSError]:
        """Return for each of `paths` its content, or the error if it cannot be read."""
        return read_files([self.path(path) for path in paths], flags=NONBLOCK)

    def read_attributes(self, paths: Iterable[str]) -> list[str]:
        """Return each sysfs attribute of `paths` as `read_attribute` does."""
        contents = self.read_each(paths)
        return ["" if isinstance(each, OSError) else each.decode("utf-8", "replace").strip() for each in contents]

    def names(self, path: str) -> list[str]:
        """Return the names in a directory in no order, [] if there is none."""
        try:
            return posix.listdir(self.path(path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def link(self, path: str) -> str:
        """Return the target of a symbolic link, "" if there is none."""
        try:
            return posix.readlink(self.path(path))
        except OSError:
            return ""

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of what `path` leads to, None if there is nothing."""
        try:
            return posix.stat(self.path(path))
        except (FileNotFoundError, NotADirectoryError):
            return None


def read_environment() -> dict[str, str]:
    """Return this process's environment as os.environ has it, without the cost of importing `os`."""
    encoding, errors = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
    return {name.decode(encoding, errors): value.decode(encoding, errors) for name, value in posix.environ.items()}


def is_user_namespace() -> bool:
    """Return whether this process runs in a user namespace other than the initial one."""
    return read_file("/proc/self/uid_map").split() != IDENTITY_UID_MAP.encode().split()


def host_from_environment(environment: Mapping[str, str]) -> Host:
    """Return the host that a program works on; ToolkitError if the variable does not name a directory."""
    root = environment.get(ROOT_VARIABLE, "") or "/"
    if not is_directory(root):
        raise ToolkitError(
            f"{ROOT_VARIABLE}={root} is not a directory",
            # With `env -u`, because every other command fails for the same reason.
            hint=f"run 'unset {ROOT_VARIABLE}'; 'env -u {ROOT_VARIABLE} amd-ctk simulate build PROFILE DIR' builds one",
        )
    return Host(root)
