"""Adopt the containers that run when the tracker is enabled or reset: give them leases as if they had claimed.

A start reads the policy before it claims. So write the policy first, then look for containers, and repeat this until no
process that may have read the old policy is still making one.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from amd_gpu_tracker.book.history_directory import begin_history
from amd_gpu_tracker.book.lease import BY_ADOPTION, Holder, boot_offset
from amd_gpu_tracker.claims.claim import Claim, in_pod, new_lease
from amd_gpu_tracker.leases.lease_scan import prune_leases
from amd_gpu_tracker.leases.running import count_untracked, find_creations, find_running_containers, read_own_file
from amdgpu_discovery.choices.oci_spec import gpus_in_spec, is_privileged, joined_ipc, read_spec, shared_cgroup
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from amd_gpu_tracker.book.lease import Lease
    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.leases.processes import Processes
    from amd_gpu_tracker.leases.running import Creation, RunningContainer
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

    Notify = Callable[[str], None]

# Creating a container takes less than a second, unless its engine itself waits.
CREATION_TIMEOUT_SECONDS = 10.0
ADOPTION_POLL_SECONDS = 0.05
# At most so many users with rootless containers are named.
MOST_USERS = 8


def adopt_running(book: Book, notify: Notify, *, since: float) -> None:
    """Give each running container of root with GPUs a lease; `notify` gets a sentence about each, even on failure.

    `since` is when the policy was written, in seconds since boot.
    """
    said: set[str] = set()

    def notify_once(sentence: str) -> None:
        # Each scan finds the same containers again.
        if sentence not in said:
            said.add(sentence)
            notify(sentence)

    until = time.monotonic() + CREATION_TIMEOUT_SECONDS
    pending = _scan(book, notify_once, since=since)
    while pending and time.monotonic() < until:
        time.sleep(ADOPTION_POLL_SECONDS)
        pending = _scan(book, notify_once, since=since)
    for creation in pending:
        notify(
            f"container {creation.container_id} is still being made by process {creation.process.pid},"
            " but its GPUs are not known; restart it"
        )
    _report_untracked(book.state.host, book.processes, notify)


def take_over_at_start(state: State, processes: Processes) -> None:
    """Take over the state of AMD's toolkit 1.x at a container's start: begin the history, and adopt running containers.

    The caller holds the lock. It makes a container itself, so this waits for no others. StateError as
    `State.take_over`.
    """
    former = state.take_over()
    if former and former.enabled:
        # Without a history, the start goes on; `begin_history` notes the cause.
        with suppress(ToolkitError):
            begin_history(state)
        _adopt(state, processes, lambda _: None)


def _scan(book: Book, notify: Notify, *, since: float) -> list[Creation]:
    """Adopt running containers; return those in creation since before `since` that do not run yet."""
    creations = find_creations(book.state.host, book.processes)
    older = [creation for creation in creations if creation.process.started <= since]
    # Wait without the lock: one of the older processes may be waiting for it.
    with book.locked():
        running = _adopt(book.state, book.processes, notify)
    return [creation for creation in older if creation.container_id not in running]


def _adopt(state: State, processes: Processes, notify: Notify) -> set[str]:
    """Write the leases that are missing; return the ids of all running containers."""
    containers = find_running_containers(state.host, processes)
    if not containers:
        return set()
    gpus = locate_gpus(state.host, board_ids=False)
    known = prune_leases(state, processes, state.lease_paths()).living
    for container in containers:
        if not any(_is_of(lease, container) for lease in known):
            _adopt_one(state, container, gpus, processes, notify)
    return {container.container_id for container in containers}


def _is_of(lease: Lease, container: RunningContainer) -> bool:
    if lease.container_id != container.container_id:
        return False
    return lease.init == container.init or os.path.realpath(lease.root) == os.path.realpath(container.root)


def _adopt_one(
    state: State, container: RunningContainer, gpus: Sequence[GpuLocation], processes: Processes, notify: Notify
) -> None:
    try:
        config = f"{container.bundle}/config.json"
        spec = read_spec(config, name=config, read=read_own_file)
        wanted = gpus_in_spec(spec, gpus)
    except ToolkitError as error:
        notify(f"container {container.container_id} is running, but its GPUs are not known: {error}; restart it")
        return
    privileged = is_privileged(spec)
    if not (wanted or privileged):
        return
    claim = Claim(
        holder=_holder(container, spec),
        wanted=wanted,
        ways=(BY_ADOPTION,),
        is_privileged=privileged,
        # The namespace of the process. The path in the spec may by now lead to another process with the same id.
        ipc=f"{processes.directory}/{container.init.pid}/ns/ipc" if joined_ipc(spec) else "",
    )
    started = container.init.started + boot_offset()
    state.write_lease(new_lease(in_pod(state, state.read_policy(), claim), processes).replace(since=started))
    if wanted:
        numbers = " ".join(str(gpu.number) for gpu in wanted)
        notify(f"container {container.container_id} is running and uses GPUs [{numbers}]")


def _holder(container: RunningContainer, spec: dict[str, Any]) -> Holder:
    return Holder(
        container_id=container.container_id,
        root=container.root,
        bundle=container.bundle,
        creator=container.init,
        init=container.init,
        cgroup=shared_cgroup(spec, container.container_id),
    )


def _report_untracked(host: Host, processes: Processes, notify: Notify) -> None:
    counts = count_untracked(host, processes)
    for uid, count in sorted(counts.items())[:MOST_USERS]:
        whose = f"user {uid}" if uid != os.geteuid() else "an engine in another mount or user namespace"
        notify(f"the running containers of {whose} ({count}) are not tracked; restart those with GPUs")
    if len(counts) > MOST_USERS:
        notify(f"nor are those of {len(counts) - MOST_USERS} more users")
