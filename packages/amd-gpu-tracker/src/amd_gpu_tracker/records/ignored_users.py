"""The users of whom the administrator decided that the tracker believes nothing, one number on each line of a file."""

from __future__ import annotations

from amd_gpu_tracker.enabled import POLICY_DIRECTORY
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.records.state import make_directory, read_if_there
from amdgpu_discovery.files import replace_file

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
    words = (read_if_there(path) or b"").split()
    if not all(word.isdigit() and len(word) <= len(str(LARGEST_UID)) for word in words):
        raise StateError(
            f"{path} cannot be understood: it has a line that is not a user's number",
            hint="fix it, or delete it to ignore no user",
        )
    return frozenset(map(int, words))


def write_ignored_users(host: Host, uids: Iterable[int]) -> None:
    """Replace the list, and wait for the disk."""
    make_directory(host.path(POLICY_DIRECTORY))
    content = "".join(f"{uid}\n" for uid in sorted(uids))
    replace_file(host.path(IGNORED_USERS_FILE), content.encode(), mode=0o644, durable=True)
