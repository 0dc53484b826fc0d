"""Whether a job may have GPUs at once, or others are before it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.queue.planned import refuse_reserved
from amd_gpu_sharing.broker.requests.demand import Demand
from amd_gpu_sharing.broker.requests.people import format_held
from amd_gpu_sharing.broker.requests.protocol import Answer
from amd_gpu_tracker.claims.by_name import jobs_wait
from amd_gpu_tracker.errors import GpusRefused


def give_now(parts: BrokerParts, demand: Demand, give: Callable[[int], Answer], *, waits: bool) -> Answer | None:
    """Return what `give` returns; None if the job has to wait in line, GpusRefused if its client does not wait."""
    if waits and (demand.may_be_taken or _is_over_limit(parts, demand)):
        return None
    try:
        return _give_in_turn(parts, demand, give)
    except GpusRefused:
        # A job that can wait comes here only for shared GPUs. It waits where they are drained or sick.
        if not waits:
            raise
        return None


def _is_over_limit(parts: BrokerParts, demand: Demand) -> bool:
    return bool(demand.permission.gpus) and parts.leases.refresh().is_over(demand)


def _give_in_turn(parts: BrokerParts, demand: Demand, give: Callable[[int], Answer]) -> Answer:
    """Return what `give` returns for the GPUs (bits) that jobs which wait leave to a job that does not wait.

    GpusRefused if they leave too few, or the person has as many as allowed.
    """
    if _is_over_limit(parts, demand):
        held = format_held(demand.permission, parts.view.held(demand))
        raise GpusRefused(held, hint="'amd-ctk run --wait' waits in line")
    if not (demand.may_be_taken and (len(parts.queue) or parts.plans.all)):
        return give(demand.fitting)
    # A GPU may have been drained meanwhile, and a job that waits for a drained GPU holds up no other.
    parts.leases.refresh()
    for gpus in parts.queue.left_for(demand, parts.view):
        if gpus == demand.fitting:
            return give(gpus)
        with suppress(GpusRefused):
            return give(gpus)
    jobs = parts.queue.count_waiting(demand.fitting, parts.view)
    if not jobs and demand.fitting & parts.view.reserved_later(demand):
        raise refuse_reserved(demand, parts.view)
    raise jobs_wait(jobs, parts.view.users_of(demand.fitting))
