"""The users of whom the administrator decided that the tracker believes nothing, one number on each line of a file."""

from __future__ import annotations

from amd_gpu_tracker.enabled import POLICY_DIRECTORY
from amd_gpu_tracker.errors import StateError, unreadable
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import make_directories, replace_file
from amdgpu_discovery.plain_files import read_plain_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.host import Host

IGNORED_USERS_FILE = f"{POLICY_DIRECTORY}/gpu-tracker-ignored-users"
# The kernel keeps the highest number for "no user".
LARGEST_UID = (1 << 32) - 2


def read_ignored_users(host: Host) -> frozenset[int]:
    """Return the numbers of the users who are ignored; StateError where the file says something else."""
    path = host.path(IGNORED_USERS_FILE)
    words = _read(path).split()
    if not all(word.isdigit() and len(word) <= len(str(LARGEST_UID)) for word in words):
        raise StateError(
            f"{path} cannot be understood: it has a line that is not a user's number",
            hint="fix it, or delete it to ignore no user",
        )
    return frozenset(map(int, words))


def write_ignored_users(host: Host, uids: Iterable[int]) -> None:
    """Replace the list, and wait for the disk."""
    directory = host.path(POLICY_DIRECTORY)
    try:
        make_directories(directory, ignore_umask=True)
    except OSError as error:
        raise FileError(f"{directory} cannot be made: {reason(error)}") from error
    content = "".join(f"{uid}\n" for uid in sorted(uids))
    replace_file(host.path(IGNORED_USERS_FILE), content.encode(), mode=0o644, durable=True)


def _read(path: str) -> bytes:
    try:
        return read_plain_file(path)[0]
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise unreadable(path, reason(error)) from error
