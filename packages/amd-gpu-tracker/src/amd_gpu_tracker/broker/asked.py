"""A request of somebody, weighed: what is wanted, among which GPUs, and by which rules."""

from __future__ import annotations

from collections.abc import Sequence

from amd_gpu_tracker.broker.people import Permission
from amd_gpu_tracker.broker.protocol import Request
from amd_gpu_tracker.broker.terms import Terms, find_wanted_within, require_within, rules_for, rules_heard
from amd_gpu_tracker.claims.by_name import is_contested
from amd_gpu_tracker.errors import TrackerDisabled
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.value import Value


class Asked(Value):
    """A request that can be met, now or later.

    Attributes:
        permission: What its person may.
        rules: What is said about choices.
        count: How many GPUs it wants.
        among: The numbers of those that fit.
        may_be_taken: Whether these may be another's alone.
        in_one_hive: Whether those that it gets must be in one XGMI hive.
    """

    permission: Permission
    rules: ChoiceRules
    count: int
    among: Sequence[int]
    may_be_taken: bool
    in_one_hive: bool = False


def weigh(state: State, terms: Terms, permission: Permission, request: Request) -> Asked:
    """Return what somebody asks for; raise what waiting cannot change."""
    rules = rules_for(state.host, terms, permission, request.numbers)
    if terms.hears_rules and request.rules is not None:
        rules = rules_heard(request.rules, request.numbers)
    policy = state.read_policy()
    if not policy.enabled:
        raise TrackerDisabled
    choice, wanted = find_wanted_within(state.host, request.gpus, rules, permission)
    if not wanted:
        raise RequestError("the request names no GPU", hint="name GPUs, or say how many, as in free:1")
    count = choice.count if choice else len(wanted)
    require_within(permission, count)
    return Asked(
        permission=permission,
        rules=rules,
        count=count,
        among=[gpu.number for gpu in wanted],
        may_be_taken=is_contested(policy, choice, wanted),
        in_one_hive=choice is not None and choice.in_one_hive,
    )
