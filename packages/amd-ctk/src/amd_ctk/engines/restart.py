"""Have an engine read its configuration again."""

from __future__ import annotations

import os
import subprocess  # noqa: TID253  no container start comes here

from amdgpu_discovery.errors import ToolkitError

# Present while systemd is the init of this machine; see sd_booted(3).
SYSTEMD = "/run/systemd/system"


class RestartError(ToolkitError):
    """The engine was not restarted; its configuration is changed all the same."""


def restart_command(service: str) -> list[str]:
    """Return the command that restarts a service on this machine."""
    return ["systemctl", "restart", service] if os.path.isdir(SYSTEMD) else ["service", service, "restart"]


def restart(service: str) -> None:
    """Restart a service; RestartError."""
    command = restart_command(service)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RestartError(f"{service} was not restarted: {command[0]} cannot be run") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise RestartError(f"{service} was not restarted: {lines[0]}", hint=f"see 'systemctl status {service}'")
