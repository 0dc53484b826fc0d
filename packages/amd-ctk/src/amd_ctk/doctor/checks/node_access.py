"""May the group of the nodes open them?"""

from __future__ import annotations

from amd_ctk.doctor.advice import TRIGGER
from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "rootless engines, and --device, give a container the host's node with the host's mode"
PLACE = "explanation/access.md"
GROUP = 0o060
EVERYBODY = 0o006


def check(facts: Facts) -> Finding | None:
    """Judge whether somebody beside root may open the nodes."""
    nodes = facts.gpus.compute_nodes
    if not nodes:
        return None
    closed = [node for node in nodes if node.mode & GROUP != GROUP and node.mode & EVERYBODY != EVERYBODY]
    if closed:
        return bad(f"{closed[0].path} has mode {closed[0].mode:04o}: only root may open it", fix=TRIGGER)
    groups = {node.gid for node in nodes if node.mode & EVERYBODY != EVERYBODY}
    if len(groups) > 1:
        return bad(f"the nodes belong to several groups: {', '.join(map(str, sorted(groups)))}", fix=TRIGGER)
    return ok("the nodes are open to " + (f"group {groups.pop()}" if groups else "everybody"))
