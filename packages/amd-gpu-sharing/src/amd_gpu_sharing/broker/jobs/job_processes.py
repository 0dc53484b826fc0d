"""Find the processes of a job: its first one, its descendants, and those with its token, even after a parent ended."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterable

from amd_gpu_sharing.node_access.scope import is_in
from amd_gpu_tracker.book.job_ids import name_of, owner_of
from amd_gpu_tracker.book.lease import TOKEN, Lease, ProcessId
from amd_gpu_tracker.claims.handover import digest_of
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.untrusted.bounded_files import FileAnswer, read_in_child
from amdgpu_discovery.value import Value

# From linux/nsfs.h: returns the owner of a user namespace.
NS_GET_OWNER_UID = 0xB704
UID_BYTES = 4
# Many times what the attributes of a few files take.
STAT_SECONDS = 1.0
# Helpers that Podman leaves running beside a container. They end with it, and none of them uses a GPU.
CONTAINER_HELPERS = frozenset(
    (
        *("aardvark-dns", "catatonit", "conmon", "fuse-overlayfs", "pasta", "pasta.avx2"),
        *("podman", "rootlessport", "slirp4netns"),
    )
)


class JobProcesses(Value):
    """The processes of a job.

    Attributes:
        inside: Its first process, or the container in which it continues; their descendants; and processes with its
            token or in its scope in the same pid namespace. Helpers that end with their container do not count.
        contained: Processes with its token in another pid namespace, such as containers of a rootless engine.
    """

    inside: frozenset[ProcessId]
    contained: frozenset[ProcessId]


def find_processes(lease: Lease, processes: Processes, known: Collection[ProcessId] = ()) -> JobProcesses:
    """Return the running processes of a job. Descendants of the `known` processes count as the job's, too."""
    parents = processes.parents()
    inside = _descendants({lease.creator, lease.init or lease.creator, *known} & parents.keys(), parents)
    owner = owner_of(lease.container_id)
    scope = scope_of(lease.container_id, lease.creator)
    outside = parents.keys() - inside
    marked = _with_token(outside, lease, owner, processes)
    marked |= {each for each in outside if is_in(f"{processes.directory}/{each.pid}/cgroup", scope)}
    contained = {each for each in marked if len(processes.ids_inside(each.pid)) > 1}
    # Containers of root's engines have their own leases.
    marked -= contained
    marked -= _container_helpers(marked, processes)
    return JobProcesses(inside=frozenset(inside | marked), contained=frozenset(contained if owner else ()))


def find_container(lease: Lease, processes: Processes) -> ProcessId | None:
    """Return the oldest process of a rootless container with the token of a job; None if there is none.

    Such a container was detached: the command of the job has ended.
    """
    owner = owner_of(lease.container_id)
    own = processes.namespace
    others = [pid for pid in processes.pids() if processes.link(pid, "ns/pid") not in ("", own)] if owner else []
    found = _with_token(filter(None, map(processes.find, others)), lease, owner, processes)
    # The process may have ended meanwhile, and its id may belong to another.
    return min(filter(processes.is_running, found), key=lambda each: each.start, default=None)


def find_left(lease: Lease, pids: Iterable[int], processes: Processes) -> set[ProcessId]:
    """Return those of some processes that belong to an ended job: the owner's, with the job's token or in its scope."""
    owner = owner_of(lease.container_id)
    scope = scope_of(lease.container_id, lease.creator)
    found = set(filter(None, map(processes.find, pids)))
    inside = {each for each in found if is_in(f"{processes.directory}/{each.pid}/cgroup", scope)}
    own = {each for each in inside if belongs_to(each.pid, owner, processes)}
    return own | _with_token(found - own, lease, owner, processes)


def scope_of(job: str, process: ProcessId) -> str:
    """Return the name of the scope for the first process of a job. The scope need not exist."""
    return f"amd-gpu-{owner_of(job)}-{name_of(job)}-{process.pid}-{process.start}.scope"


def gpus_of(lease: Lease, host: Host) -> list[GpuLocation]:
    """Return the GPUs of a lease that the host has, by number."""
    return [gpu for gpu in locate_gpus(host) if gpu.key in lease.gpus]


def belongs_to(pid: int, owner: int, processes: Processes) -> bool:
    """Return whether a process is a user's: by its real uid, or because the user made its user namespace."""
    if processes.uid(pid) == owner:
        return True
    is_outside = processes.link(pid, "ns/user") == processes.link("self", "ns/user")
    return not is_outside and _maker_of_namespace(pid, processes) == owner


def open_process(process: ProcessId, processes: Processes) -> int | None:
    """Return a pidfd of this very process; None if it has ended, even if its id is in use again."""
    try:
        opened = os.pidfd_open(process.pid)
    except OSError:
        return None
    if process.pid > 1 and processes.is_running(process):
        return opened
    os.close(opened)
    return None


def _descendants(roots: Collection[ProcessId], parents: dict[ProcessId, int]) -> set[ProcessId]:
    """Return `roots` and their descendants. An older process is the child of an earlier parent with the same id."""
    children: dict[int, list[ProcessId]] = {}
    for each, above in parents.items():
        children.setdefault(above, []).append(each)
    found, left = set(roots), list(roots)
    while left:
        parent = left.pop()
        more = [each for each in children.get(parent.pid, ()) if each.start >= parent.start and each not in found]
        found.update(more)
        left += more
    return found


def _container_helpers(candidates: Collection[ProcessId], processes: Processes) -> set[ProcessId]:
    """Return the processes that run one of the helpers from the file that is installed, if root owns that file."""
    installed = {each: processes.link(each.pid, "exe") for each in candidates}
    paths = {
        each: (f"{processes.directory}/{each.pid}/exe", path)
        for each, path in installed.items()
        if os.path.basename(path) in CONTAINER_HELPERS
    }
    if not paths:
        return set()
    # In a mount namespace, a user may put another file at this path, and a FUSE file system may never answer stat(2).
    # One time for all of them, because a user may have thousands.
    asked = dict.fromkeys(path for both in paths.values() for path in both)
    answers = read_in_child([[path] for path in asked], seconds=STAT_SECONDS, read=_file_and_owner)
    texts = {each: [answers.get(path, FileAnswer()).text for path in both] for each, both in paths.items()}
    return {each for each, (runs, found) in texts.items() if runs == found and runs.endswith(" 0")}


def _file_and_owner(path: str) -> str:
    """Return the device and inode of a file, and the user who owns it."""
    found = os.stat(path)
    return f"{found.st_dev} {found.st_ino} {found.st_uid}"


def _with_token(candidates: Iterable[ProcessId], lease: Lease, owner: int, processes: Processes) -> set[ProcessId]:
    """Return the processes that belong to the owner of a job and have its token."""
    if not lease.token_digest:
        return set()
    own = {each.pid: each for each in candidates if belongs_to(each.pid, owner, processes)}
    tokens = processes.variable_of(own, TOKEN)
    return {own[pid] for pid, token in tokens.items() if token and digest_of(token) == lease.token_digest}


def _maker_of_namespace(pid: int, processes: Processes) -> int:
    try:
        opened = os.open(f"{processes.directory}/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        return int.from_bytes(fcntl.ioctl(opened, NS_GET_OWNER_UID, bytes(UID_BYTES)), "little")
    except OSError:
        return -1
    finally:
        os.close(opened)
