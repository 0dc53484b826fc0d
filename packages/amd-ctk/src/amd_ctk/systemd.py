"""What amd-ctk asks of systemd: whether it runs, and to switch units of this machine."""

from __future__ import annotations

from amd_ctk.programs import Answer, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

# Present while systemd is the init of this machine; see sd_booted(3).
RUNNING = "/run/systemd/system"
SECONDS = 30.0


def runs_systemd(host: Host) -> bool:
    """Return whether systemd is the init of a host."""
    return host.stat(RUNNING) is not None


def ask_systemctl(*words: str) -> Answer:
    """Return what `systemctl` answers on this machine."""
    return ask(("systemctl", *words), seconds=SECONDS)


def would_switch(host: Host, unit: str, *, enabled: bool) -> bool:
    """Return whether a unit is not yet enabled, or disabled; False for a simulated host, where none is switched."""
    return host.is_this_machine and ask_systemctl("is-enabled", "--quiet", unit).succeeded is not enabled
