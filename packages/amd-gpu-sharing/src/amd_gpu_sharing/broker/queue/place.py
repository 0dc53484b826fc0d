"""A place in the queue: a ticket, the request, and the client, which gets messages about what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from amd_gpu_sharing.broker.queue.lease_view import LeaseView
from amd_gpu_sharing.broker.queue.order import latest_start
from amd_gpu_sharing.broker.requests.connection import Connection
from amd_gpu_sharing.broker.requests.demand import Demand, as_bits, numbers_in
from amd_gpu_sharing.broker.requests.people import format_held
from amd_gpu_sharing.broker.requests.protocol import LONGEST_ANSWER_MESSAGE, WAITING, Answer
from amd_gpu_sharing.tickets import Ticket
from amd_gpu_tracker.book.job_ids import name_of
from amd_gpu_tracker.errors import GpusRefused, placeholder
from amd_gpu_tracker.times import format_past, format_seconds
from amdgpu_discovery.errors import ToolkitError

# A client that lost its connection keeps its turn for this long; then others go first.
ABSENCE_SECONDS = 3.0
# How often a waiting client gets a message.
NOTICE_SECONDS = 60.0
MOST_NAMED_GPUS = 5
MOST_HOLDERS_NAMED = 3


class Place:
    """A waiting job: its ticket, which is its turn, and its demand, which is what it waits for."""

    def __init__(self, ticket: Ticket, demand: Demand, now: Callable[[], float], client: Connection | None) -> None:
        """Wait for the GPUs in `demand`, even while its client is disconnected; `now` returns the time."""
        self._now = now
        self.ticket = ticket
        self.absent_since = self._now()
        # Whether it held up no other job at the last round.
        self.is_passed_over = False
        # From the last refusal: what the user can do, and the GPUs that are not given out, by reason.
        self.hint = ""
        self.doubts: Mapping[str, Sequence[int]] = {}
        self.notified_at = 0.0
        # When it has its GPUs at the latest, in seconds since boot, by its last message; None if unknown.
        self.latest: float | None = None
        self.connect(client, demand)

    def connect(self, client: Connection | None, demand: Demand) -> None:
        """Attach a client, for the first time or after it lost its connection: it keeps its turn."""
        self.client = client
        self.last_message = ""
        self.demand = demand
        self.ticket = self.ticket.replace(**demand.in_ticket())

    def note_refusal(self, refusal: ToolkitError) -> None:
        """Keep the part of a refusal that its next message contains."""
        self.hint, self.doubts = "", {}
        if isinstance(refusal, GpusRefused):
            self.hint, self.doubts = refusal.obstacle or refusal.hint, refusal.doubts

    def is_absent(self) -> bool:
        """Return whether its client has been away for so long that it holds up no other job."""
        return self.client is None and self._now() > self.absent_since + ABSENCE_SECONDS

    @property
    def title(self) -> str:
        """Return its title for the log."""
        return f"job {self.demand.name} of user {self.demand.person}, process {self.demand.waiter.pid}"

    def withheld(self, view: LeaseView) -> int:
        """Return the fitting GPUs that are drained, sick or dirty, as bits; without those that the rules give out."""
        rules = self.demand.rules
        sick, dirty = 0 if rules.gives_sick else view.sick, 0 if rules.gives_dirty else view.dirty
        return self.demand.fitting & (view.drained | sick | dirty)

    def is_impossible(self, view: LeaseView) -> bool:
        """Return whether it cannot have its GPUs before a drain ends or a sick GPU recovers."""
        return (self.demand.fitting & ~self.withheld(view)).bit_count() < self.demand.count

    def may_be_served(self, view: LeaseView) -> bool:
        """Return whether enough GPUs look free. It may still wait for a program, or for a stopped job before it."""
        # Shared GPUs count too, unless the request wants GPUs that nobody uses.
        fitting = view.free if self.demand.request.startswith("free:") else view.free | view.shared
        return self._is_enough(fitting) and not view.is_over(self.demand)

    def notify(self, before: Sequence[Place], view: LeaseView) -> None:
        """Tell the client what it waits for if that has changed; `before` are the places that are served first."""
        latest = self.latest
        answer, sentence = self.build_message(before, view)
        is_other = (latest is None) is not (self.latest is None)
        is_other = is_other or abs((latest or 0.0) - (self.latest or 0.0)) >= NOTICE_SECONDS
        self.notified_at = self._now()
        if self.client and (sentence != self.last_message or is_other):
            self.last_message = sentence
            self.client.send(answer)

    def build_message(self, before: Sequence[Place], view: LeaseView) -> tuple[Answer, str]:
        """Return the message for the client, and the part of it that does not change as time passes; sets `latest`."""
        now = self._now()
        self.latest = self._latest_start(before, view, now)
        demands = (each.demand for each in before if not each.is_passed_over)
        rivals = [each for each in demands if each.fitting & self.demand.fitting]
        # Other jobs have its GPUs, and it is unknown for how long.
        is_held_up = self.latest is None and not self._is_enough(view.free) and not view.is_over(self.demand)
        holders = view.jobs_on(self.demand.fitting) if is_held_up else []
        sentence = self._describe_wait(rivals, view)
        named = [(self._title_of(name_of(each.job), each.person), each.numbers, each.since) for each in holders]
        held = format_holders(named, now=time.time())
        # If cut off, it would name half a job.
        sentence += held if len(sentence + held) <= LONGEST_ANSWER_MESSAGE else ""
        people = {each.person for each in rivals[:8]} | {each.person for each in holders[:8]}
        message = sentence + format_latest(None if self.latest is None else self.latest - now)
        return Answer(kind=WAITING, message=message, people=tuple(people - {self.demand.person, 0})), sentence

    def _describe_wait(self, before: Sequence[Demand], view: LeaseView) -> str:
        hint = "" if before else self.hint
        if view.is_over(self.demand):
            hint = format_held(self.demand.permission, view.held(self.demand))
        doubts = {why: as_bits(numbers) & view.free for why, numbers in self.doubts.items()}
        later = view.reserved_later(self.demand) & view.free
        withheld = {
            "drained": view.drained,
            "sick": view.sick,
            "dirty": view.dirty,
            "given to pods": view.in_pods,
            "reserved for later": later,
            **doubts,
        }
        return format_waiting(
            self.demand.count,
            free=(view.free & self.demand.fitting & ~sum(doubts.values()) & ~later).bit_count(),
            withheld={why: numbers_in(gpus & self.demand.fitting) for why, gpus in withheld.items()},
            fitting=self.demand.fitting.bit_count(),
            host_total=view.host_total,
            before=before,
            hint=hint,
            title=lambda other: self._title_of(other.name, other.person),
        )

    def _latest_start(self, before: Sequence[Place], view: LeaseView, now: float) -> float | None:
        own = sum(other.demand.count for other in before if self._shares_limit_with(other))
        if self.demand.is_spare or view.is_over(self.demand, own):
            return None
        # A job that is passed over may get GPUs at any moment, so the end of its time is unknown.
        waiters = [each.demand.replace(seconds=0.0) if each.is_passed_over else each.demand for each in before]
        ends = {number: end for number, end in view.latest_ends(now).items() if number not in view.planned}
        start = latest_start(self.demand, waiters, ends)
        # Otherwise enough GPUs are free, but a program uses some of them without a reservation.
        return start if start is not None and start > now else None

    def _shares_limit_with(self, other: Place) -> bool:
        """Return whether GPUs of another job count against the limit of this one."""
        permission = self.demand.permission
        is_of_group = permission.is_together and other.demand.permission.group == permission.group
        return is_of_group or other.demand.person == self.demand.person

    def _is_enough(self, gpus: int) -> bool:
        return (gpus & self.demand.fitting).bit_count() >= self.demand.count

    def _title_of(self, name: str, person: int) -> str:
        """Return the title of a job in a message; a job of another person is named with its owner."""
        return name if person in (self.demand.person, 0) else f"{placeholder(person)}'s {name}"


def format_waiting(
    count: int,
    *,
    free: int,
    fitting: int,
    host_total: int,
    before: Sequence[Demand],
    withheld: Mapping[str, Sequence[int]] = {},
    hint: str = "",
    title: Callable[[Demand], str] = lambda other: other.name,
) -> str:
    """Return what a job waits for: how many of the `fitting` GPUs are free, and which jobs come `before` it.

    The job wants `count` GPUs. GPUs that are `withheld` appear with the reason ("drained"), and are not free. `hint` is
    what the user can do, and `title` returns the title of another job.
    """
    which = " that fits" if fitting == 1 else " that fit"
    if fitting == host_total:
        which = ""
    said = f"waiting for {_gpus(count)}: {free} free of {fitting}{which}"
    said += "".join(f", {_named(numbers)} {why}" for why, numbers in withheld.items() if numbers)
    hint = f"; {hint}" if hint else ""
    if not before:
        return f"{said}{hint}"
    named = [
        f"{title(other)}: {_count(other, is_first=not place)}" for place, other in enumerate(before[:MOST_NAMED_GPUS])
    ]
    jobs = len(before)
    more = f" and {jobs - len(named)} more" if jobs > len(named) else ""
    return f"{said}, {jobs} {'job' if jobs == 1 else 'jobs'} before this one ({', '.join(named)}{more}){hint}"


def format_holders(holders: Sequence[tuple[str, Sequence[int], float]], *, now: float) -> str:
    """Return the part of a waiting message that names the jobs on the GPUs.

    Each holder has a title, the numbers of its GPUs, and since when it has them, in seconds since 1970 (UTC).
    """
    named = [
        f"{_named(numbers)}: {title} since {format_past(since, now=now)}"
        for title, numbers, since in holders[:MOST_HOLDERS_NAMED]
    ]
    more = f" and {len(holders) - len(named)} more" if len(holders) > len(named) else ""
    return f"; {', '.join(named)}{more}" if named else ""


def format_latest(seconds: float | None) -> str:
    """Return the part of a waiting message that gives the seconds until the latest start; "" for None."""
    return "" if seconds is None else f"; at the latest in {format_seconds(seconds)}"


def _named(numbers: Sequence[int]) -> str:
    # Imported here, because few messages name GPUs.
    from amdgpu_discovery.choices.unknown_gpus import format_numbers

    return f"GPU{'s' if len(numbers) > 1 else ''} {format_numbers(numbers).replace(',', '')}"


def _count(demand: Demand, *, is_first: bool) -> str:
    """Return how many GPUs a job wants; after the first job, whole GPUs are only counted."""
    if demand.vram_mb:
        return f"{demand.vram_mb} MiB of {_gpus(demand.count)}"
    return _gpus(demand.count) if is_first else str(demand.count)


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
