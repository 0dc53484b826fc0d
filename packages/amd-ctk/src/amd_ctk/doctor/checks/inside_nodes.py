"""Does the container have the nodes, and does a driver answer behind them?"""

from __future__ import annotations

import errno

from amd_ctk.doctor.finding import Finding, bad, not_checked, ok
from amd_ctk.doctor.inside.tried import ignored_gpus_option, name_of, nodes_with
from amd_ctk.explain.node_access import find_missing
from amdgpu_discovery.device_nodes import KFD_PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "ROCm opens /dev/kfd and the render node of each GPU, and without them it finds no GPU"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge which nodes a container has."""
    inside = facts.inside
    if inside is None:
        return None
    if inside.problem:
        return not_checked(inside.problem, needs=inside.needs)
    stale = _find_stale(facts)
    if stale:
        return bad(stale, fix=f"start {name_of(facts)} again, so that it gets the numbers of today")
    # That is said by docker-gpus.
    if ignored_gpus_option(facts):
        return None
    return _judge(name_of(facts), [node.path for node in inside.nodes if node.major is not None])


def _find_stale(facts: Facts) -> str:
    """Return what is wrong with a number in the container, "" where nothing is."""
    other = [node for node in nodes_with(facts, None) if node.major is not None]
    if other:
        return f"{other[0].path} is {other[0].number} in {name_of(facts)}, and the host has no such GPU"
    dead = nodes_with(facts, errno.ENXIO, errno.ENODEV)
    # A simulated host has no driver that could answer.
    if dead and facts.inside and facts.inside.has_driver:
        return f"{dead[0].path} is {dead[0].number} in {name_of(facts)}, and no driver answers there"
    return ""


def _judge(name: str, present: list[str]) -> Finding:
    words, fix = find_missing(name, present)
    if words:
        return bad(words, fix=fix)
    return ok(f"{name} has {KFD_PATH} and {len(present) - 1} render node{'s' if len(present) > 2 else ''}")
