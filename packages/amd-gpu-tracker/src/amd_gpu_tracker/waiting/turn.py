"""From a request to a place in the queue, and from the turn to the reservation."""

from __future__ import annotations

from amd_gpu_tracker.claims.by_name import find_wanted
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
    from collections.abc import Callable

    from amd_gpu_tracker.claims.claim import Lock
    from amd_gpu_tracker.claims.handover import Reservation
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State
    from amd_gpu_tracker.waiting.ticket import Ticket
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
    count = _require_possible(state, request, rules)
    state.prepare()
    _require_free_name(state, name, processes)
    queue = Queue(state, processes)

    def say(before: list[Ticket], jobs: int) -> None:
        free, total = _count_free(state, processes)
        tell(waiting_for(count, free=free, total=total, before=before, jobs=jobs))

    place = queue.take(name, request, count, lock)
    line = Line(state, queue, place, processes, timeout=timeout, tell=say)
    return line.serve(try_now, lambda reservation: reservation.release())


def require_no_queue(queue: Queue) -> None:
    """Raise GpusRefused where jobs wait, which were here before; one that was stopped holds up nobody."""
    waiting = sum(not queue.is_stopped(ticket) for ticket in queue.waiting())
    if waiting:
        who = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
        raise GpusRefused(f"{who} for GPUs before this one", hint="'amd-ctk run --wait' waits in line")


def _require_possible(state: State, request: str, rules: ChoiceRules) -> int:
    """Return how many GPUs are asked for; raise what waiting cannot change."""
    policy = state.read_policy()
    if not policy.enabled:
        raise TrackerDisabled
    choice, wanted = find_wanted(state.host, request, rules)
    if not wanted:
        raise RequestError("the request names no GPU to wait for", hint="name GPUs, or say how many")
    if state.is_rootless and choice is None and policy.exclusive_among(wanted):
        from amd_gpu_tracker.claims.conflicts import rootless_refusal

        raise GpusRefused(rootless_refusal([gpu.number for gpu in policy.exclusive_among(wanted)]))
    return choice.count if choice else len(wanted)


def _require_free_name(state: State, name: str, processes: Processes) -> None:
    """Raise ContainerRunning where a job of this name runs: better now than after the wait."""
    lease = state.read_lease(state.lease_path(("", name)))
    if lease is not None and judge(lease, processes).is_alive:
        raise ContainerRunning(f"{name} has GPUs already", hint="give every reservation a name of its own")


def _count_free(state: State, processes: Processes) -> tuple[int, int]:
    """Return how many GPUs nobody has, as far as the caller sees, and how many there are."""
    gpus = locate_gpus(state.host)
    living = scan_leases(state, processes, state.lease_paths()).living
    taken = {key for lease in living for key in lease.gpus}
    return sum(gpu.key not in taken for gpu in gpus), len(gpus)
