"""The leases as the broker saw them last: what ended since is dropped and recorded, and jobs go on in containers.

What people used lately, in GPU-seconds, is in a file beside the leases, so that a broker that starts again knows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from amd_gpu_tracker.broker.grants import Grants
from amd_gpu_tracker.broker.job_processes import find_container
from amd_gpu_tracker.broker.journal import Journal, log_of
from amd_gpu_tracker.broker.view import View, read_view
from amd_gpu_tracker.claims.claim import Book
from amd_gpu_tracker.claims.release import release
from amd_gpu_tracker.history.files import settle
from amd_gpu_tracker.life.lease_scan import prune_leases
from amd_gpu_tracker.node_access.users import NodeUsers
from amd_gpu_tracker.records.history import FOUND, PROGRAM
from amd_gpu_tracker.records.job_ids import name_of, owner_of
from amd_gpu_tracker.records.lease import BY_API, NEVER, Lease
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.errors import FileError, ToolkitError
from amdgpu_discovery.files import replace_file
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.plain_json import dumps, loads
from amdgpu_discovery.value import Value

# What was used counts half after this time.
HALF_LIFE_SECONDS = 6 * 3600.0
# What a broker that is killed forgets at most.
SAVE_SECONDS = 5.0


class SeenLeases:
    """What `look` finds is in `view` until the next look."""

    def __init__(self, book: Book, grants: Grants, node_users: NodeUsers, recent_use: RecentUse, log: Journal) -> None:
        """Drop what ended while no broker was there."""
        self._book, self._state, self._processes = book, book.state, book.processes
        self._grants = grants
        self._node_users = node_users
        self._recent_use = recent_use
        self._log = log
        self.view = View()
        self._reconcile()

    def look(self) -> View:
        """Read the leases again, and count what is used."""
        self._end_reservations()
        view = read_view(self._state, self._processes)
        # Where that fails, it is tried again: what ended is in the view of before.
        self.view = read_view(self._state, self._processes) if self._hand_down(self.view.leases, view) else view
        self._node_users.follow(self.view.leases)
        self._recent_use.count(self.view.holding)
        living = {lease.container_id for lease in self.view.reservations}
        given = self._grants.given
        if ended := sorted(given.keys() - living):
            # The history has the end that was seen, not the moment of the look.
            self._drop_ended(PROGRAM, [self._state.lease_path(("", job)) for job in ended])
        for job in ended:
            self._log("ended", job, job=name_of(job), user=owner_of(job), gpus=given[job])
        self._grants.given = self.view.given()
        return self.view

    def _hand_down(self, leases: Sequence[Lease], view: View) -> bool:
        """Let jobs go on in containers that their commands left detached; return whether there are any.

        Only where there may be one all processes are looked at: of a job with a limit, which the container keeps, of
        a spare one, or one that a user's own lease names.
        """
        living = {each.key for each in view.leases}
        named = {each.lease.reservation_digest for each in view.user_leases}
        ended = [each for each in leases if each.key not in living and BY_API in each.ways and not each.until]
        # Each of them, whatever becomes of another.
        went_on = [self._go_on(each) for each in ended if each.limit or each.is_spare or each.token_digest in named]
        return any(went_on)

    def _go_on(self, job: Lease) -> bool:
        container = find_container(job, self._processes)
        if container is None or not self._grants.hand_down(job, container):
            return False
        sentence = f"{job.container_id}, in a container, as process {container.pid}"
        log_of(self._log, job, self._state.host)("goes on", sentence)
        return True

    def _reconcile(self) -> None:
        """Drop what ended while no broker was there."""
        with suppress(ToolkitError):
            leases = [each for path in self._state.lease_paths() if (each := self._state.read_lease(path))]
            self._hand_down(leases, read_view(self._state, self._processes))
        with suppress(ToolkitError, OSError):
            settle(self._book)
        self._drop_ended(FOUND)

    def _drop_ended(self, how: str, paths: Sequence[str] = ()) -> None:
        """Remove those of these leases, or of all, whose holders have ended; `how` that is known is for the history."""
        with suppress(ToolkitError), self._book.locked():
            prune_leases(self._state, self._processes, paths or self._state.lease_paths(locked=True), how)

    def _end_reservations(self) -> None:
        """Drop the reservations whose time is over."""
        now = self._processes.now()
        for lease in self.view.leases:
            if lease.until and lease.until <= now:
                # By what its lease says now: it may have been kept meanwhile.
                release(self._book, lease.container_id)


class Counted(Value):
    """What the file says: when it was counted last, in seconds since boot, and what was used until then."""

    at: float
    used: dict[int, float]


class RecentUse:
    """GPU-seconds by person."""

    def __init__(self, state: State, now: Callable[[], float]) -> None:
        """Go on where the file of a host ends; `now` returns seconds since boot."""
        self._now = now
        self._path = f"{state.run_directory}/used.json"
        counted = _read(self._path, now())
        # When it was counted last, here and by a broker before.
        self._at = self.counted_before = counted.at
        self.by_person: Mapping[int, float] = counted.used
        self._saved_at = 0.0
        self._holding: dict[int, int] | None = None

    def count(self, holding: Mapping[int, int]) -> None:
        """Count the time since the last call; from now on persons hold so many GPUs, as `holding` says."""
        now = self._now()
        before = dict(holding) if self._holding is None else self._holding
        self.by_person = with_use(self.by_person, before, now - self._at)
        is_new = before != holding
        self._at, self._holding = now, dict(holding)
        if is_new or now > self._saved_at + SAVE_SECONDS:
            self._save(now)

    def _save(self, now: float) -> None:
        self._saved_at = now
        used = {str(person): amount for person, amount in self.by_person.items()}
        # A full disk must not keep users from GPUs.
        with suppress(FileError):
            replace_file(self._path, dumps({"at": now, "used": used}) + b"\n", mode=0o644)


def decayed(used: Mapping[int, float], seconds: float) -> dict[int, float]:
    """Return what was used as it counts some seconds later; what is next to nothing is forgotten."""
    factor = 0.5 ** (max(0.0, seconds) / HALF_LIFE_SECONDS)
    return {person: left for person, amount in used.items() if (left := amount * factor) >= 0.001}


def with_use(used: Mapping[int, float], gpus: Mapping[int, int], seconds: float) -> dict[int, float]:
    """Return what was used after some more seconds in which persons held so many `gpus`.

    What is used at the begin of that time has lost a part of its weight at its end, as the half-life says.
    """
    seconds = max(0.0, seconds)
    after = decayed(used, seconds)
    decay = 0.6931471805599453 / HALF_LIFE_SECONDS
    weight = (1 - 0.5 ** (seconds / HALF_LIFE_SECONDS)) / decay
    for person, count in gpus.items():
        after[person] = after.get(person, 0.0) + count * weight
    return after


def _read(path: str, now: float) -> Counted:
    try:
        counted = Counted.from_json(loads(read_plain_file(path)[0]))
    except (OSError, RecursionError, ValueError):
        return Counted(at=now, used={})
    is_sound = 0 <= counted.at <= now and all(0 <= amount < NEVER for amount in counted.used.values())
    return counted if is_sound else Counted(at=now, used={})
