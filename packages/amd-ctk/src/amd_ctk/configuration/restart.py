"""Restart an engine so that it reads its configuration."""

from __future__ import annotations

import subprocess  # noqa: TID253  no container start comes here

from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

# Present while systemd is the init of this machine; see sd_booted(3).
SYSTEMD = "/run/systemd/system"
HINT = "its configuration is changed; restart it by hand"


class RestartError(ToolkitError):
    """The engine was not restarted; its configuration is changed nevertheless."""


def restart_command(host: Host, service: str) -> list[str]:
    """Return the command that restarts a service of a host."""
    return ["systemctl", "restart", service] if host.stat(SYSTEMD) else ["service", service, "restart"]


def restart(command: list[str], service: str) -> None:
    """Run the command that restarts a service; RestartError."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise RestartError(f"{service} was not restarted: {command[0]} cannot be run", hint=HINT) from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise RestartError(f"{service} was not restarted: {lines[0]}", hint=HINT)
