"""Whether systemd has given up on the service that gives out GPUs, because it ended too often."""

from __future__ import annotations

import os

from amd_gpu_sharing.broker.requests.protocol import SERVICE_UNIT, SOCKET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

SOCKET_UNIT = "amd-gpu-tracker.socket"
FAILED = "the service that gives out GPUs has failed"
RESTART = f"sudo systemctl reset-failed {SERVICE_UNIT} && sudo systemctl start {SOCKET_UNIT}"
# Much longer than any message of an error.
LONGEST_ERROR = 200


def has_failed(host: Host) -> bool:
    """Return whether the service has failed. Its socket is gone then, so that other hosts start no program here."""
    if not host.is_this_machine or host.stat(SOCKET) is not None:
        return False
    # `status` and `top` ask, mostly on hosts with a socket.
    from amdgpu_discovery.command_line.programs import ask_systemctl, runs_systemd

    if not runs_systemd(host):
        return False
    # It succeeds if one of them has failed.
    return ask_systemctl("is-failed", "--quiet", SERVICE_UNIT, SOCKET_UNIT).succeeded


def find_start(host: Host) -> str:
    """Return the administrator's command that makes the service listen."""
    from amdgpu_discovery.command_line.programs import runs_systemd

    if host.is_this_machine and runs_systemd(host):
        return f"sudo systemctl enable --now {SOCKET_UNIT}"
    sudo = "sudo " if host.is_this_machine else ""
    return f"{sudo}amd-ctk gpu-tracker serve --listen {host.path(SOCKET)}"


def find_restart(host: Host) -> str:
    """Return the administrator's command that makes the service one of the installed version."""
    from amdgpu_discovery.command_line.programs import runs_systemd

    if host.is_this_machine and runs_systemd(host):
        return f"sudo systemctl restart {SERVICE_UNIT}"
    return f"stop it, then {find_start(host)}"


def require_not_failed(host: Host) -> None:
    """Raise ServiceFailed for users if the service has failed. Root needs no service."""
    from amd_gpu_sharing.broker.requests.client import ServiceFailed

    if os.geteuid() and has_failed(host):
        raise ServiceFailed(FAILED, hint=f"the administrator starts it again: {RESTART}")


def find_last_error(host: Host) -> str:
    """Return the last line that the service wrote to the journal, "" if there is none that the caller may read."""
    from amdgpu_discovery.command_line.programs import ask, runs_systemd

    if not host.is_this_machine or not runs_systemd(host):
        return ""
    answer = ask(("journalctl", "--quiet", "--output=cat", "--lines=1", f"_SYSTEMD_UNIT={SERVICE_UNIT}"))
    return answer.output.strip()[:LONGEST_ERROR]
