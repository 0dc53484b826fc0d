"""What an ended job has left on its GPUs: a process that still uses them, or another partition mode.

Such a GPU is dirty, and not given out. A process counts only if it was seen in the ended lease: otherwise any user who
keeps a GPU in use could make it dirty for all. The process and its start are recorded, which proves later that it is
the same one.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

from amd_gpu_tracker.book.drains import DIRTY, LONGEST_REASON, Drain, read_drains, this_boot, write_drains
from amd_gpu_tracker.book.job_ids import name_of, owner_of
from amd_gpu_tracker.book.matching import read_tracked_gpus
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amd_gpu_tracker.book.lease import Lease, ProcessId
    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.leases.processes import Processes
    from amd_gpu_tracker.leases.use import GpuProcess

# Between TERM and KILL, and after KILL.
TERM_SECONDS = 10.0
KILL_SECONDS = 5.0
END_POLL_SECONDS = 0.05


def describe_dirt(state: State, lease: Lease, left: Mapping[str, Mapping[ProcessId, GpuProcess]]) -> list[Drain]:
    """Return a record for each GPU of an ended lease that is not as it was.

    `left` are the processes of the lease that still use each GPU, by its key.
    """
    modes = find_other_modes(state)
    now = time.time()
    boot_id = this_boot()
    found = []
    for key in lease.gpus:
        reasons = [_name_left(lease, left[key])] if left.get(key) else []
        reasons += [modes[key]] if key in modes else []
        if reasons:
            reason = "; ".join(reasons)[:LONGEST_REASON]
            processes = tuple(left.get(key, ()))
            found.append(
                Drain(key=key, reason=reason, since=now, boot_id=boot_id, job=lease.container_id, left=processes)
            )
    return found


def find_other_modes(state: State) -> dict[str, str]:
    """Return a clause for each tracked GPU whose board has another partition mode than the administrator's, by key."""
    try:
        policy = state.read_policy()
        now = {gpu.pci_address: gpu.partition for gpu in read_tracked_gpus(state.host, locate_gpus(state.host))}
    except ToolkitError:
        return {}
    return {
        gpu.key: f"its partition mode is {now[gpu.pci_address]}, and was {gpu.partition} when GPUs were tracked"
        for gpu in policy.gpus
        if policy.enabled and now.get(gpu.pci_address, gpu.partition) != gpu.partition
    }


def find_dirty(state: State) -> list[Drain]:
    """Return the records of dirty GPUs; StateError."""
    return [each for each in read_drains(state.host) if each.state == DIRTY] if state.has_drains else []


def record_dirty(book: Book, found: Sequence[Drain]) -> None:
    """Record dirty GPUs. A GPU that was dirty before keeps the processes that were left then."""
    with book.locked():
        drains = read_drains(book.state.host)
        new = {each.key for each in found}
        before = {each.key: each.left for each in drains if each.state == DIRTY and each.key in new}
        merged = [each.replace(left=tuple(dict.fromkeys((*before.get(each.key, ()), *each.left)))) for each in found]
        kept = [each for each in drains if each.state != DIRTY or each.key not in new]
        write_drains(book.state.host, [*kept, *merged])


def recheck(book: Book, *, gives_dirty: bool = False) -> list[Drain]:
    """Drop the records of GPUs that are clean by now, or all if the administrator `gives_dirty` GPUs; return these."""
    dirty = find_dirty(book.state)
    modes = find_other_modes(book.state) if dirty else {}
    clean = [each for each in dirty if gives_dirty or not (_is_left(each, book.processes) or each.key in modes)]
    if clean:
        with book.locked():
            write_drains(book.state.host, [each for each in read_drains(book.state.host) if each not in clean])
    return clean


class EndedLeftovers(Value):
    """What became of the processes that a job left on a GPU: those that ended, and those that go on."""

    number: int
    job: str
    ended: tuple[int, ...]
    going_on: tuple[int, ...]


def end_left(number: int, drain: Drain, processes: Processes) -> EndedLeftovers:
    """End the processes that a job has left on GPU `number`: TERM, then KILL.

    A process that runs as another user than the job's owner by now is left alone.
    """
    owner = owner_of(drain.job)
    opened = {each: found for each in drain.left if (found := _open(each, owner, processes)) is not None}
    for each, seconds in ((signal.SIGTERM, TERM_SECONDS), (signal.SIGKILL, KILL_SECONDS)):
        for found in opened.values():
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(found, each)
        _wait_for_end(opened, processes, seconds)
    for found in opened.values():
        os.close(found)
    going_on = tuple(each.pid for each in drain.left if processes.is_running(each))
    ended = tuple(each.pid for each in drain.left if each.pid not in going_on)
    return EndedLeftovers(number=number, job=name_of(drain.job), ended=ended, going_on=going_on)


def _wait_for_end(targets: Iterable[ProcessId], processes: Processes, seconds: float) -> None:
    end = time.monotonic() + seconds
    while any(map(processes.is_running, targets)) and time.monotonic() < end:
        time.sleep(END_POLL_SECONDS)


def _open(process: ProcessId, owner: int, processes: Processes) -> int | None:
    """Return a pidfd of this very process if it runs as the owner, else None; checked after the pidfd is open."""
    try:
        opened = os.pidfd_open(process.pid)
    except OSError:
        return None
    if process.pid > 1 and processes.is_running(process) and set(processes.uids(process.pid)) == {owner}:
        return opened
    os.close(opened)
    return None


def _is_left(drain: Drain, processes: Processes) -> bool:
    return any(map(processes.is_running, drain.left))


def _name_left(lease: Lease, left: Mapping[ProcessId, GpuProcess]) -> str:
    first = next(iter(left.values()))
    whose = f"{first.program} of {first.person}" if first.person else first.program
    more = f" and {len(left) - 1} more" if len(left) > 1 else ""
    return f"process {first.pid} ({whose}){more} of the ended job {name_of(lease.container_id)} uses it"
