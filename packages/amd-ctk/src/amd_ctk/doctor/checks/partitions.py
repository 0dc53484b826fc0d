"""Do partitions have their nodes?"""

from __future__ import annotations

from amd_ctk.doctor.advice import fix_nodes
from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a partition is reached by a render node of its own"
PLACE = "explanation/numbering.md"


def check(facts: Facts) -> Finding | None:
    """Judge the nodes of partitions."""
    partitions = [gpu for gpu in facts.gpus.gpus if gpu.partition_total > 1]
    if not partitions or facts.kernel.is_user_namespace:
        return None
    problems = [problem for problem in facts.gpus.node_problems if problem.is_partition]
    if problems:
        return bad(f"{len(problems)} partitions lack nodes: {problems[0].message}", fix=fix_nodes(problems[0]))
    return ok(f"all {len(partitions)} partitions have their nodes")
