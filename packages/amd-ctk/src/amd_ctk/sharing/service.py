"""The socket of the service that gives out GPUs: enabled while any user may reserve GPUs."""

from __future__ import annotations

from amd_ctk.systemd import ask_systemctl, runs_systemd, would_switch
from amd_gpu_tracker.service import Service
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

SOCKET_UNIT = "amd-gpu-tracker.socket"
SERVICE_UNIT = "amd-gpu-tracker.service"
BY_HAND = f"where systemd does not run, keep 'amd-ctk gpu-tracker serve --listen {Service.SOCKET}' running as root"


class ServiceError(ToolkitError):
    """The settings were changed, and systemd did not start or stop the service."""


def enable(host: Host) -> str:
    """Let systemd listen; return what a person has to do who has no systemd, "" where nothing."""
    if not host.is_this_machine:
        return ""
    if not runs_systemd(host):
        return BY_HAND
    _systemctl("enable", "--now", SOCKET_UNIT)
    return ""


def disable(host: Host) -> None:
    """Let systemd listen no more, and end the service; jobs that run keep their GPUs until they end."""
    if _has_systemd(host):
        _systemctl("disable", "--now", SOCKET_UNIT)
        _systemctl("stop", SERVICE_UNIT)


def preview_enable(host: Host) -> str:
    """Return what `enable` would do or ask for, "" if it would change nothing."""
    if not host.is_this_machine:
        return ""
    if not runs_systemd(host):
        return BY_HAND
    return f"{SOCKET_UNIT} would be enabled and started" if would_switch(host, SOCKET_UNIT, enabled=True) else ""


def preview_disable(host: Host) -> str:
    """Return what `disable` would do, "" if it would change nothing."""
    is_change = _has_systemd(host) and would_switch(host, SOCKET_UNIT, enabled=False)
    return f"{SOCKET_UNIT} would be disabled, and {SERVICE_UNIT} stopped" if is_change else ""


def _has_systemd(host: Host) -> bool:
    return host.is_this_machine and runs_systemd(host)


def _systemctl(*words: str) -> None:
    answer = ask_systemctl(*words)
    if not answer.succeeded:
        why = answer.problem or answer.errors.strip().rpartition("\n")[2]
        raise ServiceError(f"'systemctl {' '.join(words)}' failed: {why}", hint=f"see 'systemctl status {words[-1]}'")
