"""Are the device nodes there, with the driver's numbers?"""

from __future__ import annotations

from amd_ctk.doctor.advice import fix_nodes
from amd_ctk.doctor.finding import Finding, bad, not_checked, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a container's node is made after the host's"
PLACE = "how-to/troubleshoot.md#the-driver-and-its-nodes"


def check(facts: Facts) -> Finding | None:
    """Judge the nodes of whole GPUs; those of partitions have a check of their own."""
    if not facts.gpus.gpus:
        return None
    problems = [problem for problem in facts.gpus.node_problems if not problem.is_partition]
    if facts.kernel.is_user_namespace and problems:
        return None
    if problems:
        return bad(problems[0].message, fix=fix_nodes(problems[0]))
    if not facts.gpus.nodes:
        return not_checked("no GPU has nodes that could be looked at", needs="a GPU whose nodes are there")
    node = facts.gpus.nodes[-1]
    return ok(f"{len(facts.gpus.nodes)} nodes with the driver's numbers; {node.path} is {node.mode:04o}")
