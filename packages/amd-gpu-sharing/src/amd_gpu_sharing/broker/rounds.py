"""A round: look at everything again, end what is over, and give GPUs to those whose turn it is."""

from __future__ import annotations

from amd_gpu_sharing.broker.begin_planned import begin_planned
from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.queue.order import choose_preempted
from amd_gpu_sharing.broker.queue.place import Place
from amd_gpu_sharing.broker.queue.plan_file import PlannedReservation
from amd_gpu_sharing.broker.requests.demand import Demand
from amd_gpu_sharing.broker.requests.people import Terms
from amd_gpu_tracker.book.kinds import kind_of


def serve(parts: BrokerParts, terms: Terms) -> bool:
    """Serve everybody once, and tell the others what they wait for; return whether another round has to follow."""
    view, now = parts.leases.refresh(), parts.now()
    if parts.idle.serve(view.leases, terms.idle, now):
        view = parts.leases.refresh()
    parts.endings.serve(view.leases, now)
    parts.queue.drop_cancelled()
    due = begin_planned(parts, terms)
    if len(parts.queue):
        parts.queue.serve(parts.view, terms.order, parts.leases.refresh)
    has_preempted = False
    if len(parts.queue) or due:
        has_preempted = _preempt(parts, now, first=due)
        parts.queue.notify_clients(parts.view)
    parts.queue.write_starts()
    parts.unrecorded.log_changes()
    return has_preempted


def _preempt(parts: BrokerParts, now: float, first: dict[PlannedReservation, Demand]) -> bool:
    """End idle jobs and reservations if that serves a waiting job, `first` these; return whether it ended any."""
    view, idle = parts.view, parts.idle
    kinds = [kind_of(each) for each in view.leases]
    found = [each.lease for each in kinds if each.is_preemptible(now) and not each.is_ending(now)]
    if not found:
        return False
    found.sort(key=lambda lease: (not lease.is_spare, lease.preemptible))
    ripe = {each.container_id: each for each in found}
    coming = [each.lease for each in kinds if each.is_ending(now)]
    gpus = {job: view.gpus_of(each, *each.inside(view.leases)) for job, each in ripe.items()}
    waiters = first | parts.queue.active_demands(view)
    chosen = choose_preempted(waiters, view.free | view.gpus_of(*coming), gpus)
    # A job that was idle at the last check may use its GPUs by now. Check again before it ends for a waiting job.
    unsure = {waiter for job, waiter in chosen.items() if not (idle.is_fresh or ripe[job].is_spare)}
    if unsure:
        idle.check_now(now)
    chosen = {job: waiter for job, waiter in chosen.items() if waiter not in unsure}
    for job, waiter in chosen.items():
        idle.preempt(ripe[job], waiter.title if isinstance(waiter, Place) else "a reservation", now)
    return bool(chosen)
