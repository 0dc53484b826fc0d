"""Commands that several checks advise."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.gpus import NodeProblem

TRIGGER = "sudo udevadm trigger --action=add --subsystem-match=drm --subsystem-match=kfd"


def fix_nodes(problem: NodeProblem) -> str:
    """Return the command that makes a node that is missing or wrong."""
    path = problem.message.split(" ", 1)[0]
    return f"sudo rm {path} && {TRIGGER}" if " is device " in problem.message else TRIGGER
