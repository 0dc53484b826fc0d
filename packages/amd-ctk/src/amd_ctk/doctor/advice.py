"""Commands that several checks advise."""

from __future__ import annotations

from shlex import quote

from amd_ctk.doctor.facts.gpus import NodeProblem

TRIGGER = "sudo udevadm trigger --action=add --subsystem-match=drm --subsystem-match=kfd"


def fix_nodes(problem: NodeProblem) -> str:
    """Return the command that makes a node that is missing or wrong."""
    return f"sudo rm {quote(problem.path)} && {TRIGGER}" if problem.is_left_over else TRIGGER
