"""The socket of the service that gives out GPUs, which is enabled while any user may reserve GPUs."""

from __future__ import annotations

from amd_gpu_sharing.broker.requests.protocol import SERVICE_UNIT
from amd_gpu_sharing.failure import SOCKET_UNIT
from amd_gpu_sharing.service import Service
from amdgpu_discovery.command_line.programs import ask_systemctl, runs_systemd, would_change
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

SERVE_HINT = f"where systemd does not run, keep 'amd-ctk gpu-tracker serve --listen {Service.SOCKET}' running as root"


class ServiceError(ToolkitError):
    """The settings were changed, but systemd did not start or stop the service."""


def enable(host: Host, *, dry_run: bool = False) -> str:
    """Let systemd listen; return what to do without systemd, or what a dry run would do, else ""."""
    if not host.is_this_machine:
        return ""
    if not runs_systemd(host):
        return SERVE_HINT
    if dry_run:
        return f"{SOCKET_UNIT} would be enabled and started" if would_change(host, SOCKET_UNIT, enabled=True) else ""
    _systemctl("enable", "--now", SOCKET_UNIT)
    return ""


def disable(host: Host, *, dry_run: bool = False) -> str:
    """Let systemd stop listening, and stop the service; return what a dry run would do, "" for nothing.

    Running jobs keep their GPUs until they end.
    """
    if not host.is_this_machine or not runs_systemd(host):
        return ""
    if dry_run:
        is_change = would_change(host, SOCKET_UNIT, enabled=False)
        return f"{SOCKET_UNIT} would be disabled, and {SERVICE_UNIT} stopped" if is_change else ""
    _systemctl("disable", "--now", SOCKET_UNIT)
    _systemctl("stop", SERVICE_UNIT)
    return ""


def serve(host: Host, listen: str) -> None:
    """Give GPUs to the users who may have some; make the socket `listen` if systemd passed none."""
    from amd_gpu_sharing.broker.serve import serve as serve_clients
    from amd_gpu_sharing.rules.permissions import find_terms

    serve_clients(host, find_terms, listen=listen)


def _systemctl(*args: str) -> None:
    answer = ask_systemctl(*args)
    if not answer.succeeded:
        why = answer.problem or answer.errors.strip().rpartition("\n")[2]
        raise ServiceError(f"'systemctl {' '.join(args)}' failed: {why}", hint=f"see 'systemctl status {args[-1]}'")
