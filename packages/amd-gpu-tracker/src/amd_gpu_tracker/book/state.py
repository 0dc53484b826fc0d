"""The tracker's files: the policy in /var/lib; leases, lock, refusals and the stamp of `identity` in /run.

Leases are changed only with the lock. Everything may be read without it, because each file is replaced as a whole.
"""

from __future__ import annotations

import posix

from amd_gpu_tracker.book.lease import (
    LEASE_BEGINS,
    LEASE_ENDS,
    LaterVersion,
    find_named_gpus,
    format_lease,
    parse_lease,
)
from amd_gpu_tracker.book.policy import Policy, format_policy, parse_policy
from amd_gpu_tracker.book.rootless import find_user_directory
from amd_gpu_tracker.enabled import DRAINS_FILE, FORMER_FILE, POLICY_FILE
from amdgpu_discovery.errors import DriverUnavailable, FileError, reason
from amdgpu_discovery.files import (
    DIRECTORY,
    FILE_TYPE,
    SYMBOLIC_LINK,
    TEMPORARY,
    append_to_file,
    directory_of,
    is_directory,
    is_file,
    is_link,
    make_directories,
    put_in_place,
    read_file,
    replace_file,
    write_beside,
)
from amdgpu_discovery.untrusted.plain_files import read_own_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from amd_gpu_tracker.book.lease import Lease
    from amd_gpu_tracker.errors import NotPermitted, StateError
    from amdgpu_discovery.host import Host

# `leases/` and the tracker's other files are in it; rootless runs have one in the user's runtime directory.
RUN_DIRECTORY = "/run/amd-container-toolkit"
# kubelet lists the pods with their devices here.
KUBELET_SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
# The udev rule of a host on which only holders of GPUs open their nodes; `amd-ctk config set gpu-access` writes it.
RULE_FILE = "/etc/udev/rules.d/72-amd-gpu-access.rules"
# Since when memory of GPUs is in use that no process holds; see `leases.unheld`.
UNHELD_FILE = "gpu-tracker-unheld.json"
HISTORY_DIRECTORY = "/var/lib/amd-container-toolkit/history"
LONGEST_GPU_OWNER = 200
# Events to count. Each has a file with one byte per event.
STARTS, REFUSALS, REPAIRS = "starts", "refusals", "repairs"
# How much of the container id remains in a name that would be too long.
LONGEST_ID_IN_NAME = 100


class State:
    """The files of the tracker of one host. `run_directory` is a path of this machine."""

    def __init__(self, host: Host, run_directory: str = "") -> None:
        self.host = host
        self.run_directory = run_directory or host.path(RUN_DIRECTORY)
        self.policy_path = host.path(POLICY_FILE)
        self.lock_path = f"{self.run_directory}/gpu-tracker.lock"
        self.leases_directory = f"{self.run_directory}/leases"
        self.refusals_path = f"{self.run_directory}/refusals.jsonl"
        self.history_directory = host.path(HISTORY_DIRECTORY)
        # The state of driver and policy for which the GPUs were found to match the policy.
        self.stamp_path = f"{self.run_directory}/gpus-seen"

    @property
    def is_rootless(self) -> bool:
        """Return whether these are the leases of one user, who cannot see those of others."""
        return self.run_directory != self.host.path(RUN_DIRECTORY)

    def read_policy(self) -> Policy:
        """Return the policy; without a file, that of AMD's toolkit 1.x. StateError if it cannot be read.

        With neither, nothing is tracked.
        """
        content = read_if_there(self.policy_path)
        if content is None:
            if is_link(self.policy_path):
                raise _unreadable(self.policy_path, "it is a symbolic link that leads nowhere")
            return self._read_former_policy() if self.has_former_policy() else Policy()
        try:
            return parse_policy(content)
        except ValueError as error:
            raise _not_understood(f"GPU Tracker's state {self.policy_path}", error) from error

    def has_policy(self) -> bool:
        """Return whether this host ever had a policy."""
        try:
            posix.lstat(self.policy_path)
        except OSError:
            return False
        return True

    def has_former_policy(self) -> bool:
        """Return whether AMD's toolkit 1.x left a state that has not been taken over yet."""
        return self.host.stat(FORMER_FILE) is not None and not self.has_policy()

    def take_over(self) -> Policy | None:
        """Save the policy of AMD's toolkit 1.x as this tracker's; None if there is nothing to take over.

        The caller holds the lock. A state that cannot be converted raises StateError once; then every GPU is refused.
        """
        if not self.has_former_policy():
            return None
        # Imported here, because this happens once in the life of a host.
        from amd_gpu_tracker.book.migration import REFUSE_ALL, read_former_policy
        from amd_gpu_tracker.errors import StateError

        try:
            former = read_former_policy(self.host)
        except DriverUnavailable:  # Try again later.
            return None
        except StateError:
            self.write_policy(REFUSE_ALL)
            raise
        if former is not None:
            self.write_policy(former)
        return former

    def write_policy(self, policy: Policy) -> None:
        """Replace the policy and wait for the disk; ValueError, with nothing written, if it could not be read back."""
        content = format_policy(policy)
        parse_policy(content)
        make_directory(directory_of(self.policy_path))
        replace_file(self.policy_path, content, mode=0o644, durable=True)

    def prepare(self) -> None:
        """Make the directories for locks and leases; NotPermitted if the user may not."""
        make_directory(self.run_directory)
        make_directory(self.leases_directory)

    def lease_path(self, key: tuple[str, str]) -> str:
        """Return the path of the lease for this runtime root and container id."""
        return f"{self.leases_directory}/{_lease_name(*key)}"

    def lease_paths(self, *, locked: bool = False) -> list[str]:
        """Return the paths of all leases, without leftovers of interrupted writes.

        A caller that holds the lock passes `locked`; then leftovers, whose writers were killed, are removed.
        """
        try:
            names = posix.listdir(self.leases_directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _unreadable(self.leases_directory, reason(error)) from error
        if locked:
            _remove_leftovers(self.leases_directory, names)
        return [f"{self.leases_directory}/{name}" for name in names if name.endswith(".json")]

    def read_lease(self, path: str) -> Lease | None:
        """Return a lease, None if there is none (any more). StateError if it cannot be read."""
        content = read_if_there(path)
        try:
            return None if content is None else parse_lease(content)
        except ValueError as error:
            raise _not_understood(f"lease {path}", error, find_named_gpus(content or b"")) from error

    def may_name(self, path: str, gpu_keys: Iterable[bytes]) -> bool:
        """Return False if a lease certainly names none of these GPUs. Does not parse the lease."""
        try:
            content = read_file(path, flags=posix.O_NONBLOCK)
        except FileNotFoundError:
            return False
        except OSError:
            return True  # Reading it will report the error.
        is_whole = content.startswith(LEASE_BEGINS) and content.endswith(LEASE_ENDS)
        return not is_whole or any(key in content for key in gpu_keys)

    @property
    def records_history(self) -> bool:
        """Return whether reservations are recorded. Those of users are not, because users cannot write the history."""
        return not self.is_rootless and is_directory(f"{self.history_directory}/open")

    @property
    def has_drains(self) -> bool:
        """Return whether GPUs may be drained; on most hosts none ever was."""
        return is_file(self.host.path(DRAINS_FILE))

    def write_lease(self, lease: Lease) -> None:
        """Write a lease to its path."""
        path = self.lease_path(lease.key)
        try:
            put_in_place(write_beside(path, format_lease(lease), mode=0o644), path)
        except OSError as error:
            raise FileError(f"{path} cannot be written: {reason(error)}") from error
        if lease.gpus and self.records_history and not lease.will_restart:
            from amd_gpu_tracker.book.history import begin

            begin(self.history_directory, path, lease)

    def remove_lease(self, path: str, how: str = "found") -> None:
        """Remove a lease that may be gone already; the history records `how` its end became known."""
        try:
            posix.unlink(path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FileError(f"{path} cannot be removed: {reason(error)}") from error
        if self.records_history:
            from amd_gpu_tracker.book.history import finish

            finish(self.history_directory, path, how)

    def count(self, event: str) -> None:
        """Count another of STARTS, REFUSALS or REPAIRS since the machine started, if possible.

        Appending needs no lock, and costs a start three system calls.
        """
        try:
            append_to_file(self._count_path(event), b".", flags=posix.O_NONBLOCK)
        except OSError:
            return

    def read_count(self, event: str) -> int:
        """Return how often the event happened since the machine started."""
        path = self._count_path(event)
        return posix.stat(path).st_size if is_file(path) else 0

    def remove_leases(self, *, but: Container[str] = ()) -> None:
        """Remove every lease except `but`, readable or not, and leftovers of interrupted writes."""
        names = posix.listdir(self.leases_directory) if is_directory(self.leases_directory) else []
        leftovers = [f"{self.leases_directory}/{name}" for name in names if name.endswith(TEMPORARY)]
        for path in [*self.lease_paths(), *leftovers]:
            if path not in but:
                clear(path)
                self.remove_lease(path, "forgotten")

    def clear_files(self) -> None:
        """Remove anything that is not a file from the paths of the tracker's files, so that they can be written."""
        for path in (self.policy_path, self.refusals_path, self.stamp_path):
            clear(path)

    def _count_path(self, event: str) -> str:
        return f"{self.run_directory}/{event}.count"

    def _read_former_policy(self) -> Policy:
        from amd_gpu_tracker.book.migration import REFUSE_ALL, read_former_policy

        try:
            return read_former_policy(self.host) or Policy()
        except DriverUnavailable:
            # It tracks. Which GPUs it tracks is known once the host has any.
            return REFUSE_ALL


def open_state(host: Host, environment: Mapping[str, str]) -> State:
    """Return the tracker's files for this process; on a simulated host, all users have the same."""
    return State(host, find_user_directory(environment) if host.is_this_machine else "")


def clear(path: str) -> None:
    """Remove a directory, or a link that leads to no file. A directory that is not empty is moved aside.

    Docker makes a directory if a file to be mounted does not exist.
    """
    try:
        kind = posix.lstat(path).st_mode & FILE_TYPE
        if kind == SYMBOLIC_LINK and not is_file(path):
            posix.unlink(path)
        elif kind == DIRECTORY and posix.listdir(path):
            posix.rename(path, f"{path}.{posix.getpid()}.old")
        elif kind == DIRECTORY:
            posix.rmdir(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except PermissionError as error:
        raise _needs_root() from error
    except OSError as error:
        raise FileError(f"{path} is not a file and cannot be removed: {reason(error)}") from error


def read_if_there(path: str) -> bytes | None:
    """Return the content of a file, None if there is none; StateError if it cannot be read."""
    try:
        return read_own_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, reason(error)) from error


def make_directory(path: str) -> None:
    """Make a directory that all may read and only its owner may change; NotPermitted if the user may not."""
    try:
        # All users may read the status, whatever the umask.
        make_directories(path, ignore_umask=True)
    except PermissionError as error:
        raise _needs_root() from error
    except OSError as error:
        raise FileError(f"{error.filename or path} cannot be made: {reason(error)}") from error


def _remove_leftovers(directory: str, names: Iterable[str]) -> None:
    for name in names:
        if name.endswith(TEMPORARY):
            try:
                posix.unlink(f"{directory}/{name}")
            except OSError:
                # Leftovers are never read, so they refuse no container.
                continue


def _unreadable(path: str, why: str) -> StateError:
    # Imported here: starts do not need the fifteen classes of errors.
    from amd_gpu_tracker.errors import unreadable

    return unreadable(path, why)


def _needs_root() -> NotPermitted:
    from amd_gpu_tracker.errors import needs_root

    return needs_root()


def _not_understood(what: str, error: ValueError, gpus: tuple[str, ...] | None = None) -> StateError:
    from amd_gpu_tracker.errors import StateError

    # `reset` would lose what the later version recorded.
    is_later = isinstance(error, LaterVersion)
    hint = "install that toolkit again" if is_later else "repair it with 'sudo amd-ctk gpu-tracker reset'"
    return StateError(f"the {what} cannot be understood: {error}", hint=hint, gpus=gpus, is_later=is_later)


def _lease_name(root: str, container_id: str) -> str:
    """Return a file name that is different for every pair."""
    name = "@".join(part.replace("%", "%25").replace("/", "%2F").replace("@", "%40") for part in (container_id, root))
    if len(name) > LONGEST_GPU_OWNER:
        from amd_gpu_tracker.book.digest import sha256_of

        # An argument that is not UTF-8 has surrogates.
        name = f"{name[:LONGEST_ID_IN_NAME]}@{sha256_of(name.encode('utf-8', 'surrogatepass'))}"
    return f"{name}.json"
