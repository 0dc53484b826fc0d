"""Let only users who have reserved a GPU open it: whether a host can do that, and turning it on and off."""

from __future__ import annotations

import os
from collections.abc import Iterator

from amd_device_spec.settings import ACCESS, DEVICE_MODE, HOST_MODE, RESERVED, read_settings
from amd_gpu_sharing.node_access.users import ReservedNodes
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.errors import needs_root
from amdgpu_discovery.command_line.programs import runs_systemd
from amdgpu_discovery.driver.drm import DRM_CLASS
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

NOTHING_CHANGED = "every member of the nodes' group can still open every GPU"


class AccessRefused(ToolkitError):
    """A host that cannot keep users from GPUs that others have reserved."""


class Obstacle(Value):
    """An obstacle to this: the `problem`, and the `command` that solves it, or `advice` if no command does."""

    problem: str
    command: str = ""
    advice: str = ""

    @property
    def hint(self) -> str:
        """Return what to do before reserved access is turned on."""
        return f"first run '{self.fix}'" if self.command else self.advice

    @property
    def fix(self) -> str:
        """Return what to do if reserved access is already on."""
        return f"sudo {self.command}" if self.command else self.advice


def set_access(host: Host, value: str) -> bool:
    """Set who may open GPUs, "" for the default, and set up the nodes; return whether the setting changed.

    AccessRefused, NotPermitted and FileError leave everything unchanged.
    """
    if host.is_this_machine and os.geteuid():
        raise needs_root()
    # Changing config.toml requires a library that most callers do not need.
    from amd_device_spec.settings_file import set_setting

    if value != RESERVED:
        try:
            return set_setting(host, ACCESS, value or None)
        finally:
            # Also if config.toml cannot be read, because removing the packages must give the nodes back.
            ReservedNodes(host).give_back()
    require_possible(host)
    nodes = ReservedNodes(host)
    # Running jobs continue.
    nodes.close()
    try:
        changed = set_setting(host, ACCESS, value)
    except BaseException:
        nodes.give_back()
        raise
    # Jobs may have started or ended in the meantime.
    nodes.update()
    return changed


def turn_off(host: Host) -> bool:
    """Let the groups of the nodes open all GPUs again; False if they already could."""
    return read_settings(host).gpu_access == RESERVED and set_access(host, "")


def preview_turn_off(host: Host) -> str:
    """Return what `turn_off` would do to the nodes, "" if nothing."""
    return preview_access(host, "") if read_settings(host).gpu_access == RESERVED else ""


def preview_access(host: Host, value: str) -> str:
    """Return what `set_access` would do to the nodes, "" if nothing; AccessRefused if it would refuse."""
    if value == RESERVED:
        require_possible(host)
    nodes = ReservedNodes(host)
    # Nodes that another program opened since are closed again.
    if not (nodes.find_open() if value == RESERVED else nodes.are_closed()):
        return ""
    paths = ", ".join(nodes.paths())
    closed = "would be closed to users who have not reserved them"
    return f"{paths} {closed}" if value == RESERVED else f"{paths} would be open to their groups again"


def apply_access(host: Host) -> None:
    """Set up the nodes according to the setting, after the tracker was enabled or disabled; AccessRefused."""
    if read_settings(host).gpu_access == RESERVED and Tracker(host).is_enabled():
        set_access(host, RESERVED)


def find_access_problem(host: Host, *, is_reserved: bool) -> str:
    """Return how the nodes differ from the setting, "" if they do not; only root can read who may open them."""
    nodes = ReservedNodes(host)
    if not is_reserved:
        return f"{nodes.rule_file} closes the nodes, but {ACCESS} is not {RESERVED}" if nodes.are_closed() else ""
    if problem := nodes.find_open():
        return f"{ACCESS} is {RESERVED}, but {problem}"
    path = nodes.find_wrong()
    return f"{ACCESS} is {RESERVED}, but the list of {path} does not match the users who reserved it" if path else ""


def require_possible(host: Host) -> None:
    """Raise AccessRefused if this host cannot limit a GPU to the users who reserved it."""
    for obstacle in find_obstacles(host):
        raise AccessRefused(f"{obstacle.problem}: {NOTHING_CHANGED}", hint=obstacle.hint)


def require_open_containers(host: Host) -> None:
    """Raise AccessRefused if only root could open GPUs in containers that get the host's modes."""
    if read_settings(host).gpu_access == RESERVED:
        problem = f"{ACCESS} is {RESERVED}: with the host's modes only root could open GPUs in containers"
        raise AccessRefused(problem, hint=f"first run 'sudo amd-ctk config unset {ACCESS}'")


def find_obstacles(host: Host) -> Iterator[Obstacle]:
    """Yield what prevents limiting GPUs to their holders, the cheapest to find out first."""
    settings = read_settings(host)
    if not settings.users:
        yield Obstacle(problem="no user may reserve GPUs", command="amd-ctk users allow NAME")
    tracker = Tracker(host)
    if not tracker.is_enabled():
        yield Obstacle(problem="the GPU Tracker is disabled", command="amd-ctk gpu-tracker enable")
    if settings.device_mode == HOST_MODE:
        yield Obstacle(problem="containers get the host's modes", command=f"amd-ctk config unset {DEVICE_MODE}")
    if display := find_display(host):
        problem = f"a display runs on an AMD GPU ({display})"
        yield Obstacle(problem=problem, advice="use a machine without one, or connect it to another GPU")
    if not runs_systemd(host):
        yield Obstacle(problem="systemd does not run", advice="only systemd can close all other GPUs to a job")
    # Only root can start what this tries.
    elif host.is_this_machine and not os.geteuid() and (failed := ReservedNodes(host).find_obstacle()):
        problem = f"systemd cannot close other GPUs to a job here ({failed})"
        yield Obstacle(
            problem=problem, advice="this needs D-Bus, and device filters in systemd and the kernel (CONFIG_CGROUP_BPF)"
        )


def find_display(host: Host) -> str:
    """Return the connector of an AMD GPU that shows a picture, "" if none does."""
    cards = tuple(f"{card}-" for card in ReservedNodes(host).cards())
    for name in host.names(DRM_CLASS):
        attributes = [f"{DRM_CLASS}/{name}/{attribute}" for attribute in ("status", "enabled")]
        # `connected` means only a cable. `enabled` means that a CRTC drives the connector, also for the console.
        if name.startswith(cards) and host.read_attributes(attributes) == ["connected", "enabled"]:
            return name
    return ""
