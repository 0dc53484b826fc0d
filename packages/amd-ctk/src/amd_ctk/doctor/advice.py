"""Commands that several checks advise."""

from __future__ import annotations

from shlex import quote

from amd_ctk.doctor.facts.gpus import NodeProblem
from amd_ctk.doctor.facts.toolkit import ToolkitFacts
from amd_ctk.sharing.service import BY_HAND, SOCKET_UNIT

TRIGGER = "sudo udevadm trigger --action=add --subsystem-match=drm --subsystem-match=kfd"


def fix_nodes(problem: NodeProblem) -> str:
    """Return the command that makes a node that is missing or wrong."""
    if problem.is_directory:
        return f"sudo rmdir {quote(problem.path)} && {TRIGGER}"
    return f"sudo rm {quote(problem.path)} && {TRIGGER}" if problem.is_left_over else TRIGGER


def fix_service(toolkit: ToolkitFacts) -> str:
    """Return the command that lets the service that gives out GPUs answer."""
    if not toolkit.has_systemd:
        return BY_HAND
    # systemd replaces a socket that another one left, and has to forget one that was removed. The service goes
    # along with its socket.
    return f"sudo systemctl enable {SOCKET_UNIT} && sudo systemctl restart {SOCKET_UNIT}"
