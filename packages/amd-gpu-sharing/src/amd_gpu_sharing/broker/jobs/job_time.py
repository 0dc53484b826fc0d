"""Change how long a reservation or job lasts, together with everything that runs in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from amd_gpu_tracker.book.job_ids import job_id, name_of, owner_of
from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import RESERVATION, Lease, since_boot
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.errors import NotDone, NotPermitted, StateError
from amd_gpu_tracker.leases.lease_scan import find_holders, scan_leases
from amd_gpu_tracker.times import format_seconds
from amd_gpu_tracker.watch.history.ended import read_ended
from amdgpu_discovery.errors import ToolkitError

MINUTE = 60


def keep_from_now(
    book: Book, name: str, owner: int | None, seconds: float, *, most: float = 0.0, by: int = 0
) -> tuple[str, float]:
    """Extend a reservation or job to `seconds` from now; return its id and the seconds until its end (0: never).

    Never shorten it or add an end; count it as used now. `owner` is a uid, None for any owner; `by` is the uid of the
    caller. `most` is the owner's time limit, 0 for none. NotDone, NotPermitted.
    """
    state = book.state
    with book.locked():
        lease, leases = _find(book, name, owner, by)
        now = book.processes.now()
        _require_running(lease, leases, now)
        if lease.is_spare:
            problem = f"{name_of(lease.job)} lasts until someone waits for its GPUs"
            raise NotDone(problem, hint="run it without --preempt=now")
        end = kind_of(lease).end
        if end and now + seconds > end:
            _require_within(lease, seconds, most, now)
            end = now + seconds
            # Inner leases first: if the broker is killed in between, none of them ends before the job it is in.
            for each in lease.inside(leases):
                state.write_lease(each.replace(limit=end))
        # A user who extends it is present, so it is not idle.
        lease = lease.replace(idle_since=0.0, preemptible=0.0)
        state.write_lease(kind_of(lease).with_end(end) if end else lease)
    # Adding to the clock and subtracting again may lose part of a microsecond, and 2 h would become 1 h 59 min.
    return lease.job, round(end - now, 3) if end else 0.0


def end_now(book: Book, name: str, owner: int | None, *, by: int = 0) -> list[Lease]:
    """Set the end of a reservation or job to now; return its lease and those that end with it. NotDone.

    `owner` and `by` as for `extend`.
    """
    with book.locked():
        lease, leases = _find(book, name, owner, by)
        now = book.processes.now()
        kind = kind_of(lease)
        ended = [lease, *lease.inside(leases)]
        # A job that is ending already keeps its end, so that repeated requests do not end it again.
        if not 0 < kind.end <= now:
            ended = [kind.with_end(now), *(each.replace(limit=now) for each in ended[1:])]
            # Inner leases first: if the broker is killed in between, none of them outlasts the job it is in.
            for each in reversed(ended):
                book.state.write_lease(each)
    return ended


def find_job(book: Book, name: str, owner: int | None) -> str:
    """Return the id of a reservation or job; NotDone. `owner` as for `extend`."""
    with book.locked():
        return _find(book, name, owner, 0)[0].job


def no_reservation(state: State, job: str, what: str = "reservation", *, by: int = 0) -> ToolkitError:
    """Return the error for a `job` id that names no job or reservation.

    `by` is the caller's uid, 0 for root. Names can be private, so users never learn that another user has one.
    """
    name = name_of(job)
    if any(each.job == job for each in read_ended(state)):
        return NotDone(f"the restart of this machine ended the reservation {name}", hint="reserve GPUs again")
    if _is_by_sudo(state, job):
        problem = f"the reservation {name} belongs to root, because it was made with sudo"
        return NotPermitted(problem, hint="run the command with sudo")
    whose = "this user has" if owner_of(job) else "there is"
    if by:
        whose = "you have"
    return NotDone(f"{whose} no {what} {name}", hint="see 'amd-ctk queue'")


def _find(book: Book, name: str, owner: int | None, by: int) -> tuple[Lease, Sequence[Lease]]:
    """Return the owner's reservation or job of this name, also one made with sudo; and all leases."""
    leases = scan_leases(book.state, book.processes, book.state.lease_paths(locked=True)).living
    named = [each for each in find_holders(leases) if name_of(each.job) == name]
    found = list({each.job: each for each in reversed(named)}.values())
    if owner is not None:
        own = [each for each in found if each.job == job_id(owner, name)]
        found = own or [each for each in found if each.person == owner]
    if not found:
        raise no_reservation(book.state, job_id(owner or 0, name), "reservation or job", by=by)
    if len(found) > 1:
        raise NotDone(f"{len(found)} users have a reservation or job {name}", hint="name the owner with --user")
    return found[0], leases


def _require_running(lease: Lease, leases: Iterable[Lease], now: float) -> None:
    name = name_of(lease.job)
    inside = lease.reservation if lease.is_by_name else ""
    if inside and any(each.container_id == inside for each in leases):
        reservation = name_of(inside)
        raise NotDone(f"{name} lasts as long as {reservation}", hint=f"name that: 'amd-ctk keep {reservation}'")
    if inside or lease.is_preempted or kind_of(lease).is_ending(now):
        raise NotDone(f"{name} is already ending", hint="reserve GPUs again")


def _require_within(lease: Lease, seconds: float, most: float, now: float) -> None:
    had = now - lease.job_began
    if not most or had + seconds <= most:
        return
    name = name_of(lease.job)
    left = int(most - had)
    hint = f"write 'amd-ctk keep {name} {left // MINUTE}m', or less" if left >= MINUTE else "ask the administrator"
    raise NotPermitted(f"your limit is {format_seconds(most)}; {name} has used {format_seconds(had)}", hint=hint)


def _is_by_sudo(state: State, job: str) -> bool:
    """Return whether root has a reservation of this name that the owner of `job` made with sudo."""
    with suppress(StateError):
        lease = state.read_lease(state.lease_path(("", name_of(job))))
        if lease and lease.job != job and lease.kind == RESERVATION:
            return lease.person == owner_of(job) and not kind_of(lease).is_over(since_boot())
    return False
