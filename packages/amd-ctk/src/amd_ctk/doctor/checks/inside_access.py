"""May the container's user open the nodes that it has?"""

from __future__ import annotations

import errno

from amd_ctk.doctor.finding import Finding, bad, ok
from amd_ctk.doctor.inside.tried import name_of, nodes_with, permitted_nodes
from amd_ctk.explain.node_access import closed_fix, closed_words, mode_allows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a process opens a node by its mode, its user and its groups; the name of a group means nothing, its number does"
PLACE = "explanation/access.md"


def check(facts: Facts) -> Finding | None:
    """Judge what the kernel says to the container's user: EACCES."""
    if facts.inside is None or not facts.inside.nodes:
        return None
    closed, process = nodes_with(facts, errno.EACCES), facts.inside.process
    if not closed:
        is_open = permitted_nodes(facts)
        return ok(f"user {process.uid} of {name_of(facts)} may open {is_open[0].path}") if is_open else None
    node = closed[0]
    if mode_allows(node, process):
        words = f"{node.path} in {name_of(facts)} is closed by SELinux, or by a mount with nodev: its mode would do"
        return bad(words, fix="sudo setsebool -P container_use_devices on, or mount it without nodev")
    return bad(closed_words(node, process), fix=closed_fix(node))
