"""From a request to a place in the queue, and from the turn to the reservation."""

from __future__ import annotations

from contextlib import suppress

from amd_gpu_tracker.claims.choice import find_users, find_wanted, only_for_root, read_other_leases
from amd_gpu_tracker.claims.conflicts import LET_USERS, rootless_refusal
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, TrackerDisabled
from amd_gpu_tracker.life.lease_scan import scan_leases
from amd_gpu_tracker.life.liveness import judge
from amd_gpu_tracker.waiting.line import Line
from amd_gpu_tracker.waiting.queue import Queue
from amd_gpu_tracker.waiting.sentences import waiting_for
from amd_gpu_tracker.waiting.ticket import require_name
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from typing import Any

    from amd_gpu_tracker.claims.handover import Reservation
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lock import Lock
    from amd_gpu_tracker.records.state import State
    from amd_gpu_tracker.waiting.ticket import Ticket
    from amd_gpu_tracker.waiting.tickets import Tickets
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.choices.rules import ChoiceRules


def wait_in_line(
    state: State,
    name: str,
    request: str,
    *,
    timeout: float | None,
    tell: Callable[[str], None],
    processes: Processes,
    lock: Lock,
    rules: ChoiceRules,
    try_now: Callable[[], Reservation],
) -> Reservation:
    """Return what `try_now` reserves when it is this job's turn. Errors as `Tracker.wait`."""
    require_name(name)
    choice, wanted = _require_possible(state, request, rules)
    state.prepare()
    _require_free_name(state, name, processes)
    if not _is_contested(state, choice, wanted):
        with suppress(GpusRefused):
            return try_now()
    queue = Queue(state, processes)
    count = choice.count if choice else len(wanted)

    def say(before: list[Ticket], refusal: GpusRefused | None) -> None:
        free = _count_free(state, wanted, processes)
        total = len(locate_gpus(state.host))
        hint = refusal.hint if refusal else ""
        tell(waiting_for(count, free=free, fitting=len(wanted), host_total=total, before=before, hint=hint))

    place = queue.take(name, request, count, [gpu.number for gpu in wanted], lock)
    line = Line(state, queue, place, processes, timeout=timeout, tell=say)
    return line.serve(try_now, lambda reservation: reservation.release())


def require_no_queue(queue: Queue, served: Tickets, among: Container[int]) -> None:
    """Raise GpusRefused where jobs wait for one of these GPUs; one that was stopped holds up nobody.

    `served` are the tickets of those who wait through the service.
    """
    tickets = [ticket for ticket in (*queue.waiting(), *served.waiting()) if ticket.holds_up(among)]
    waiting = sum(not queue.is_stopped(ticket) for ticket in tickets)
    if waiting:
        who = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
        raise GpusRefused(f"{who} for GPUs before this one", hint="'amd-ctk run --wait' waits in line")


def find_contested(state: State, request: str, rules: ChoiceRules) -> list[int]:
    """Return the numbers of the GPUs for which a job with this request stands in line.

    None of a request that names shared GPUs only, which it gets beside others that have them. RequestError where the
    host can never meet it.
    """
    choice, wanted = find_wanted(state.host, request, rules)
    return [gpu.number for gpu in wanted] if _is_contested(state, choice, wanted) else []


def _is_contested(state: State, choice: Choice | None, wanted: Sequence[Any]) -> bool:
    return choice is not None or bool(state.read_policy().exclusive_among(wanted))


def _require_possible(state: State, request: str, rules: ChoiceRules) -> tuple[Choice | None, Sequence[Any]]:
    """Return the choice and the GPUs that fit as `find_wanted` does; raise what waiting cannot change."""
    policy = state.read_policy()
    if not policy.enabled:
        raise TrackerDisabled
    choice, wanted = find_wanted(state.host, request, rules)
    if not wanted:
        raise RequestError("the request names no GPU to wait for", hint="name GPUs, or say how many")
    exclusive: list[Any] = list(policy.exclusive_among(wanted)) if state.is_rootless else []
    never = only_for_root(choice, wanted, exclusive) if choice else ""
    if exclusive and (never or not choice):
        raise GpusRefused(never or rootless_refusal([gpu.number for gpu in exclusive]), hint=LET_USERS)
    return choice, wanted


def _require_free_name(state: State, name: str, processes: Processes) -> None:
    """Raise ContainerRunning where a job of this name runs: better now than after the wait."""
    lease = state.read_lease(state.lease_path(("", name)))
    if lease is not None and judge(lease, processes).is_alive:
        raise ContainerRunning(f"{name} has GPUs already", hint="give every reservation a name of its own")


def _count_free(state: State, gpus: Sequence[Any], processes: Processes) -> int:
    """Return how many of these GPUs nobody has, as far as the caller sees."""
    own = scan_leases(state, processes, state.lease_paths())
    others = read_other_leases(state, processes)
    candidates = find_users(gpus, state.read_policy(), own, others, is_rootless=state.is_rootless)
    return sum(candidate.is_free for candidate in candidates)
