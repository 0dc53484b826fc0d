"""Reservations for later, until each begins.

A plan has its GPUs from the moment at which it is made: before it begins, only jobs that end in time get them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from math import inf

from amd_gpu_sharing.broker.queue.lease_view import LeaseView
from amd_gpu_sharing.broker.queue.plan_file import PLANS, VERSION, PlannedReservation, read_plans
from amd_gpu_sharing.broker.requests.demand import Demand, as_bits, numbers_in
from amd_gpu_sharing.broker.requests.people import ROOT, NotAllowed, Permission, Terms, while_account_lasts
from amd_gpu_tracker.book.lease import boot_offset
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, WaitRefused
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.times import format_moment, format_seconds
from amdgpu_discovery.choices.unknown_gpus import format_numbers
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.files import remove_file, replace_file
from amdgpu_discovery.untrusted.plain_json import dumps

MOST_PLANS = 200
MOST_PLANS_OF_ONE = 2
FURTHEST_DAYS = 14
# How often a plan whose GPUs are not free yet is tried without an event.
PLAN_POLL_SECONDS = 5.0
HINT = "see 'amd-ctk queue', and choose another time"


class Plans:
    """The plans of one host."""

    def __init__(self, state: State, processes: Processes) -> None:
        self._state, self._processes = state, processes
        # A process that stands in for the service of a user has none.
        self.all = () if state.is_rootless else read_plans(state)

    def find(self, owner: int | None, name: str) -> list[PlannedReservation]:
        """Return the plans of this name, of one owner or, for None, of all."""
        return [each for each in self.all if each.name == name and owner in (None, each.owner)]

    def starts(self, numbers: Mapping[str, int]) -> dict[int, float]:
        """Return when the first plan of each GPU begins, by number, in seconds since boot."""
        offset = boot_offset()
        starts = dict[int, float]()
        for plan in self.all:
            for number in (numbers[key] for key in plan.gpus if key in numbers):
                starts[number] = min(plan.start - offset, starts.get(number, inf))
        return starts

    def next_time(self) -> float | None:
        """Return when a plan has to be looked at, in seconds since boot; None without any."""
        now, offset = self._processes.now(), boot_offset()
        times = (each.start - offset for each in self.all)
        return min((each if each > now else now + PLAN_POLL_SECONDS for each in times), default=None)

    def due(self) -> Iterator[PlannedReservation]:
        """Yield the plans that have begun, in their order."""
        now = self._processes.now() + boot_offset()
        yield from sorted((each for each in self.all if each.start <= now), key=lambda each: each.start)

    def add(self, demand: Demand, start: float, view: LeaseView) -> tuple[PlannedReservation, tuple[int, ...]]:
        """Plan a reservation of `demand`, and return it with the numbers of its GPUs.

        WaitRefused, NotAllowed, ContainerRunning; GpusRefused if too few GPUs are not reserved then; FileError.
        """
        self._require_allowed(demand, start)
        numbers = self._choose(demand, start, view)
        keys = {number: key for key, number in view.numbers.items()}
        permission = demand.permission
        plan = PlannedReservation(
            name=demand.name,
            owner=demand.owner,
            person=demand.person,
            gpus=tuple(keys[number] for number in numbers),
            start=start,
            seconds=demand.reserved_seconds,
            rule="" if permission.who == ROOT.who else permission.who,
            number=permission.number,
        )
        self._write((*self.all, plan))
        return plan, numbers

    def remove(self, plan: PlannedReservation) -> None:
        """Forget a plan, because it has begun or is not wanted; FileError if only this process forgets it."""
        self.all = tuple(each for each in self.all if each is not plan)
        self._write(self.all)

    def demand_of(self, plan: PlannedReservation, permission: Permission, view: LeaseView) -> Demand | None:
        """Return the request of a plan that has begun, for the time that is left; None while one of its GPUs is gone.

        When the machine has started, GPUs appear one after another.
        """
        numbers = tuple(sorted(view.numbers[key] for key in plan.gpus if key in view.numbers))
        if len(numbers) < len(plan.gpus):
            return None
        demand = Demand(
            name=plan.name,
            request=",".join(map(str, numbers)),
            count=len(numbers),
            fitting=as_bits(numbers),
            waiter=self._processes.myself(),
            owner=plan.owner,
            person=plan.person,
            reserved_seconds=max(1, self._seconds_left(plan)),
            person_known=plan.person,
        )
        return demand.allowed(permission)

    def is_over(self, plan: PlannedReservation) -> bool:
        """Return whether no time is left of a plan."""
        return self._seconds_left(plan) <= 0

    def _seconds_left(self, plan: PlannedReservation) -> int:
        return int(plan.end - self._processes.now() - boot_offset())

    def _require_allowed(self, demand: Demand, start: float) -> None:
        now = self._processes.now() + boot_offset()
        if not now < start <= now + FURTHEST_DAYS * 86400:
            hint = f"name a time within the next {FURTHEST_DAYS} days"
            raise WaitRefused(f"{format_moment(start)} is too late, or over", hint=hint)
        if demand.is_particular:
            raise WaitRefused("GPUs of one XGMI hive cannot be chosen for later", hint="name the GPUs")
        if self.find(demand.owner, demand.name):
            raise ContainerRunning(f"{demand.name} is reserved for later already", hint="choose another name")
        own = sum(each.person == demand.person for each in self.all)
        if (demand.person and own >= MOST_PLANS_OF_ONE) or len(self.all) >= MOST_PLANS:
            problem = f"at most {MOST_PLANS_OF_ONE} reservations of a person begin later"
            raise NotAllowed(problem, hint="see 'amd-ctk queue', and end one")

    def _choose(self, demand: Demand, start: float, view: LeaseView) -> tuple[int, ...]:
        """Return GPUs that no other plan has at that time, first those that are surely free then."""
        overlapping = [each for each in self.all if each.start < start + demand.reserved_seconds and start < each.end]
        taken = {view.numbers.get(key) for each in overlapping for key in each.gpus}
        numbers = [number for number in numbers_in(demand.fitting) if number not in taken]
        if len(numbers) < demand.count:
            others = sorted(number for number in numbers_in(demand.fitting) if number in taken)
            when = min(each.start for each in overlapping) if overlapping else start
            raise GpusRefused(f"GPUs [{format_numbers(others)}] are reserved from {format_moment(when)}", hint=HINT)
        doubts = find_doubts(numbers, start - boot_offset(), view)
        return tuple(sorted(sorted(numbers, key=lambda number: (number in doubts, number))[: demand.count]))

    def _write(self, plans: tuple[PlannedReservation, ...]) -> None:
        content = {"version": VERSION, "plans": [each.as_dict() for each in plans]}
        path = self._state.host.path(PLANS)
        if plans:
            replace_file(path, dumps(content) + b"\n", mode=0o644, durable=True)
        else:
            _remove(path)
        self.all = plans


def _remove(path: str) -> None:
    """Remove the file, where the socket's unit starts the service after a restart of the machine; FileError."""
    try:
        remove_file(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise FileError(f"{path} cannot be removed: {reason(error)}") from error


def find_permission(plan: PlannedReservation, terms: Terms) -> Permission | None:
    """Return the rule that allowed a plan, as it is now; None if that or the person's account is over."""
    own = (each for each in terms.permissions if (each.who, each.number) == (plan.rule, plan.number))
    found = next((each for each in own if not each.is_excluded), None) if plan.rule else ROOT
    try:
        return found and while_account_lasts(terms, plan.person, found)
    except NotAllowed:
        return None


def find_doubts(numbers: Collection[int], start: float, view: LeaseView) -> dict[int, str]:
    """Return by number why a GPU may be in use at `start`, in seconds since boot."""
    ends = view.latest_ends(view.now)
    doubts = {}
    for number in numbers:
        if number not in ends:
            states = {"drained": view.drained, "sick": view.sick, "dirty": view.dirty, "given to a pod": view.in_pods}
            withheld = next((state for state, gpus in states.items() if gpus >> number & 1), "")
            doubts[number] = f"GPU {number} is {withheld}" if withheld else f"GPU {number}'s job has no limit"
        elif ends[number] > start:
            doubts[number] = f"GPU {number}'s job may run {format_seconds(ends[number] - start)} longer"
    return doubts


def refuse_reserved(demand: Demand, view: LeaseView) -> GpusRefused:
    """Return the refusal of GPUs that are reserved before a job ends."""
    numbers = numbers_in(demand.fitting & view.reserved_later(demand))
    when = format_moment(min(view.planned[number] for number in numbers) + boot_offset())
    named = f"GPU {numbers[0]} is" if len(numbers) == 1 else f"GPUs {format_numbers(numbers)} are"
    return GpusRefused(f"{named} reserved from {when}", hint="see 'amd-ctk queue'; a job that ends before gets them")
