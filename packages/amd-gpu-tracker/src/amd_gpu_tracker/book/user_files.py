"""Read files of users as root, safely: few and small ones, only the user's own, and never through a symbolic link.

A user can mount a FUSE file system that root may enter (`user_allow_other` in fuse.conf) and that never answers. Once
it has taken a request, not even SIGKILL ends the reader. So leases are read only from the mount of the runtime
directory, and a child reads files elsewhere.

The administrator may make the tracker ignore some users (`read_ignored_users`).

A user may change directories while they are read, so each step starts from the directory opened before.
"""

from __future__ import annotations

import errno
import os
import time

from amd_gpu_tracker.book.rootless import DIRECTORY_NAME, USER_DIRECTORIES
from amd_gpu_tracker.book.state import make_directory, read_if_there
from amd_gpu_tracker.enabled import POLICY_DIRECTORY
from amd_gpu_tracker.errors import StateError
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.untrusted.plain_files import mount_of, read_plain_file, require_mount
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from amdgpu_discovery.host import Host

# Below DIRECTORY_NAME.
LEASES = "leases"
# Limits for one user. A lease of 64 GPUs with long paths has 2 KiB; the rest is reserve.
MOST_LEASES = 1000
LARGEST_LEASE = 16 * 1024
MOST_USER_BYTES = 4 * 1024 * 1024
# Leftovers of interrupted writes are among the names.
MOST_DIRECTORY_NAMES = 2 * MOST_LEASES
# For all files of a user that a child reads: many times what they take.
USER_FILES_SECONDS = 2.0
MUTE = "its file system does not answer"
IGNORED_USERS_FILE = f"{POLICY_DIRECTORY}/gpu-tracker-ignored-users"
# The kernel keeps the highest number for "no user".
LARGEST_UID = (1 << 32) - 2


class UserFile(Value):
    """A file of a user: its content, or the error."""

    path: str
    content: bytes = b""
    error: OSError | None = None


class UserFiles:
    """The files of one user, of which at most `most_bytes` are read in all.

    `directory` is the user's runtime directory and `mount` the mount on which it is; "" and 0 if only files elsewhere
    are read.
    """

    def __init__(self, uid: int, directory: str = "", *, mount: int = 0, most_bytes: int = MOST_USER_BYTES) -> None:
        self.uid = uid
        self.directory = directory
        self._mount = mount
        self._bytes_left = most_bytes
        self._seconds_left = USER_FILES_SECONDS

    def read(self, path: str, largest: int, *, directory: int | None = None) -> tuple[bytes, float]:
        """Return the content of a user's file and when it was written; OSError if another user owns it.

        With `directory`, the file must be on the mount of the user's directory. Without, this may wait for ever.
        """
        allowed = min(largest, self._bytes_left)
        mount = None if directory is None else self._mount
        try:
            content, written = read_plain_file(path, largest=allowed, directory=directory, owner=self.uid, mount=mount)
        except OSError as error:
            if error.errno == errno.EFBIG:
                # If it grew while it was read, that much of it was read.
                self._bytes_left -= allowed
            raise
        self._bytes_left -= len(content)
        return content, written

    def read_in_child(self, path: str, largest: int) -> bytes:
        """Return the content of a user's file; OSError if another user owns it, or if it keeps a child waiting."""

        def read(path: str) -> str:
            try:
                content, number = self.read(path, largest)[0], 0
            except OSError as error:
                content, number = str(error.strerror).encode(), error.errno or errno.EIO
            return f"{self._bytes_left} {number} {content.decode('latin-1')}"

        answer = self.ask([path], read).get(path)
        if answer is None:
            raise OSError(errno.ETIMEDOUT, MUTE)
        bytes_left, number, text = answer.split(" ", 2)
        self._bytes_left = int(bytes_left)
        content = text.encode("latin-1")
        if number != "0":
            raise OSError(int(number), content.decode())
        return content

    def ask(self, paths: Iterable[str], read: Callable[[str], str]) -> dict[str, str]:
        """Return what `read` returns for each path in a child; after the first that keeps it waiting, none is there."""
        asked = list(paths)
        if not asked or self._seconds_left <= 0:
            return {}
        # Imported here, because most leases need no file of their user's.
        from amdgpu_discovery.untrusted.bounded_files import read_in_child

        began = time.monotonic()
        answers = read_in_child([asked], seconds=self._seconds_left, read=read)
        is_mute = any(answer.error for answer in answers.values())
        self._seconds_left = 0.0 if is_mute else self._seconds_left - (time.monotonic() - began)
        return {path: answer.text for path, answer in answers.items() if not answer.error}

    def has_leases(self) -> bool:
        """Return whether there is a directory of leases, or something else in its place."""
        try:
            os.close(self._open_leases())
        except OSError as error:
            return not isinstance(error, FileNotFoundError)
        return True

    def read_leases(self) -> Iterator[UserFile]:
        """Read the leases in the user's directory; OSError if they exceed the limits.

        Yields nothing if the user has no leases.
        """
        try:
            leases = self._open_leases()
        except FileNotFoundError:
            return
        try:
            for name in _lease_names(leases):
                file = self._read_lease(name, leases)
                if file:
                    yield file
        finally:
            os.close(leases)

    @property
    def leases_directory(self) -> str:
        """Return the directory of the user's leases."""
        return f"{self.directory}/{DIRECTORY_NAME}/{LEASES}"

    def _open_leases(self) -> int:
        descriptor = self._open_directory(self.directory)
        for name in (DIRECTORY_NAME, LEASES):
            parent = descriptor
            try:
                descriptor = self._open_directory(name, parent)
            finally:
                os.close(parent)
        return descriptor

    def _open_directory(self, path: str, parent: int | None = None) -> int:
        handle = _find_directory(path, parent)
        try:
            require_mount(handle, self._mount)
            return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        finally:
            os.close(handle)

    def _read_lease(self, name: str, directory: int) -> UserFile | None:
        path = f"{self.leases_directory}/{name}"
        try:
            return UserFile(path=path, content=self.read(name, LARGEST_LEASE, directory=directory)[0])
        except FileNotFoundError:
            return None
        except OSError as error:
            if self._bytes_left < LARGEST_LEASE:
                raise OSError(errno.EFBIG, "one user has more than root reads") from error
            return UserFile(path=path, error=error)


def find_users(host: Host) -> list[UserFiles]:
    """Return the files of each user whose runtime directory exists and is accessible to the caller.

    Only root makes these directories, so the owner is the user in the name. One that is a FUSE file system is left out.
    """
    directories = host.path(USER_DIRECTORIES)
    if not os.path.isdir(directories):
        return []
    parent = os.open(directories, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    handles: dict[str, int] = {}
    try:
        handles |= _find_directories(directories)
        # Read after the directories were found, because a user may mount something at any time. The mount of the parent
        # is root's, and not in the list of a process in a chroot(2).
        plain = {*_plain_mounts(), mount_of(parent)} if handles else set()
        mounts = {path: mount for path, handle in handles.items() if (mount := mount_of(handle)) in plain}
        return [
            UserFiles(os.fstat(handles[path]).st_uid, path, mount=mount)
            for path, mount in mounts.items()
            if os.access(f"/proc/self/fd/{handles[path]}", os.R_OK, effective_ids=True)
        ]
    finally:
        for handle in (parent, *handles.values()):
            os.close(handle)


def _find_directories(parent: str) -> dict[str, int]:
    """Return handles of the directories in another one, by path."""
    handles: dict[str, int] = {}
    for name in sorted(os.listdir(parent)):
        path = f"{parent}/{name}"
        try:
            handles[path] = _find_directory(path)
        except OSError:  # It is not a directory, or it is gone.
            continue
    return handles


def _find_directory(path: str, parent: int | None = None) -> int:
    """Return a handle of a directory, but no link to one; the kernel asks no file system on it for that."""
    return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)


def _plain_mounts() -> frozenset[int]:
    """Return the ids of all mounts except FUSE file systems."""
    # On many hosts nobody has a runtime directory when a container starts.
    from amdgpu_discovery.untrusted.mounts import read_mounts

    return frozenset(mount.number for mount in read_mounts() if not mount.is_fuse)


def _lease_names(directory: int) -> Iterator[str]:
    """Yield the names of leases; OSError if there are too many, counted while reading the directory."""
    leases = 0
    with os.scandir(directory) as entries:
        for count, entry in enumerate(entries, 1):
            leases += entry.name.endswith(".json")
            if leases > MOST_LEASES or count > MOST_DIRECTORY_NAMES:
                raise OSError(errno.EFBIG, f"it has more than {MOST_LEASES} leases")
            if entry.name.endswith(".json"):
                yield entry.name


def read_ignored_users(host: Host) -> frozenset[int]:
    """Return the uids of the ignored users; StateError if the file is invalid."""
    path = host.path(IGNORED_USERS_FILE)
    try:
        return _parse_users(read_if_there(path) or b"")
    except ValueError as error:
        raise StateError(
            f"{path} cannot be understood: {error}", hint="fix it, or delete it to ignore no user"
        ) from error


def write_ignored_users(host: Host, uids: Iterable[int]) -> None:
    """Replace the list, and wait for the disk. Raises ValueError and writes nothing if it could not be read back."""
    content = "".join(f"{uid}\n" for uid in sorted(uids)).encode()
    _parse_users(content)
    make_directory(host.path(POLICY_DIRECTORY))
    replace_file(host.path(IGNORED_USERS_FILE), content, mode=0o644, durable=True)


def _parse_users(content: bytes) -> frozenset[int]:
    words = content.split()
    if not all(word.isdigit() and len(word) <= len(str(LARGEST_UID)) for word in words):
        raise ValueError("it has a line that is not a user's number")
    return frozenset(map(int, words))
