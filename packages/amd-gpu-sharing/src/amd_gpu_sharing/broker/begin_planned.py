"""Begin the reservations whose time has come."""

from __future__ import annotations

from contextlib import suppress

from amd_gpu_sharing.broker.parts import BrokerParts
from amd_gpu_sharing.broker.queue.plan_file import PlannedReservation
from amd_gpu_sharing.broker.queue.planned import find_permission
from amd_gpu_sharing.broker.requests.demand import Demand, numbers_in
from amd_gpu_sharing.broker.requests.people import Terms
from amd_gpu_tracker.errors import ContainerRunning
from amdgpu_discovery.errors import FileError, ToolkitError


def begin_planned(parts: BrokerParts, terms: Terms) -> dict[PlannedReservation, Demand]:
    """Begin the reservations whose time has come; return the requests of those whose GPUs others still have."""
    plans = parts.plans
    waiting: dict[PlannedReservation, Demand] = {}
    for plan in list(plans.due()):
        permission = None if plans.is_over(plan) else find_permission(plan, terms)
        demand = plans.demand_of(plan, permission, parts.view) if permission else None
        if permission and (demand is None or parts.view.is_over(demand)):
            continue
        numbers = numbers_in(demand.fitting) if demand else []
        try:
            if demand:
                parts.grants.give(demand, demand.fitting, is_waiting=True)
        except ContainerRunning:
            # A broker that was killed had reserved the GPUs already, or the person has used the name.
            pass
        except ToolkitError:
            if demand:
                waiting[plan] = demand
            continue
        # On a full disk, the next broker tries it again.
        with suppress(FileError):
            plans.remove(plan)
        sentence = f"{plan.name} of user {plan.person}, planned before: GPUs {numbers}"
        parts.log("reserved" if numbers else "missed", sentence, job=plan.name, user=plan.person, gpus=numbers)
        parts.leases.refresh()
    return waiting
