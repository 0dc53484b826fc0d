"""Let only those open GPUs who have reserved them: whether a host can do that, and turning it on and off."""

from __future__ import annotations

import os
from collections.abc import Iterator

from amd_ctk.programs import runs_systemd
from amd_device_spec.settings import ACCESS, DEVICE_MODE, HOST_MODE, RESERVED, read_settings
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.errors import needs_root
from amdgpu_discovery.drm import DRM_CLASS
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

NOTHING_CHANGED = "every member of the nodes' group can still open every GPU"


class AccessRefused(ToolkitError):
    """A host that cannot keep users from GPUs that others have reserved."""


class Obstacle(Value):
    """What speaks against it: the `problem`, and the `command` that ends it, or `advice` where no command does."""

    problem: str
    command: str = ""
    advice: str = ""

    @property
    def hint(self) -> str:
        """Return what to do before it is turned on."""
        return f"first run '{self.fix}'" if self.command else self.advice

    @property
    def fix(self) -> str:
        """Return what to do where it was turned on already."""
        return f"sudo {self.command}" if self.command else self.advice


def set_access(host: Host, value: str) -> bool:
    """Set who may open GPUs, "" for the default, and set up the nodes; return whether the setting changed.

    AccessRefused, NotPermitted and FileError, with nothing changed.
    """
    if host.is_this_machine and os.geteuid():
        raise needs_root()
    # Changing config.toml takes a library that most callers do without.
    from amd_ctk.configuration.settings_file import set_setting

    if value != RESERVED:
        try:
            return set_setting(host, ACCESS, value or None)
        finally:
            # Also where config.toml cannot be read: who removes the packages needs the nodes.
            Tracker(host).nodes.give_back()
    require_possible(host)
    nodes = Tracker(host).nodes
    # Jobs that run go on.
    nodes.close()
    try:
        changed = set_setting(host, ACCESS, value)
    except BaseException:
        nodes.give_back()
        raise
    # Others may have begun or ended meanwhile.
    nodes.update()
    return changed


def turn_off(host: Host) -> bool:
    """Let the groups of the nodes open all GPUs again; False where they could."""
    return read_settings(host).gpu_access == RESERVED and set_access(host, "")


def preview_turn_off(host: Host) -> str:
    """Return what `turn_off` would do to the nodes, "" if nothing."""
    return preview_access(host, "") if read_settings(host).gpu_access == RESERVED else ""


def preview_access(host: Host, value: str) -> str:
    """Return what `set_access` would do to the nodes, "" if nothing; AccessRefused where it would refuse."""
    if value == RESERVED:
        require_possible(host)
    nodes = Tracker(host).nodes
    # What others opened since is closed again.
    if not (nodes.find_open() if value == RESERVED else nodes.are_closed()):
        return ""
    paths, closed = ", ".join(nodes.paths()), "would be closed to users who have not reserved them"
    return f"{paths} {closed}" if value == RESERVED else f"{paths} would be open to their groups again"


def apply_access(host: Host) -> None:
    """Set up the nodes as the setting says, after the tracker was enabled or disabled; AccessRefused."""
    if read_settings(host).gpu_access == RESERVED and Tracker(host).is_enabled():
        set_access(host, RESERVED)


def find_access_problem(host: Host, *, is_reserved: bool) -> str:
    """Return how the nodes are not as the setting says, "" where they are; only root can read who may open them."""
    nodes = Tracker(host).nodes
    if not is_reserved:
        return f"{nodes.rule_file} closes the nodes, but {ACCESS} is not {RESERVED}" if nodes.are_closed() else ""
    if problem := nodes.find_open():
        return f"{ACCESS} is {RESERVED}, but {problem}"
    path = nodes.find_wrong()
    return f"{ACCESS} is {RESERVED}, but the list of {path} does not match the users who reserved it" if path else ""


def require_possible(host: Host) -> None:
    """Raise AccessRefused where GPUs cannot be open to those alone who have reserved them."""
    for obstacle in find_obstacles(host):
        raise AccessRefused(f"{obstacle.problem}: {NOTHING_CHANGED}", hint=obstacle.hint)


def require_open_containers(host: Host) -> None:
    """Raise AccessRefused where a container that got the host's modes could open no GPU, unless it is root's."""
    if read_settings(host).gpu_access == RESERVED:
        problem = f"{ACCESS} is {RESERVED}: with the host's modes only root could open GPUs in containers"
        raise AccessRefused(problem, hint=f"first run 'sudo amd-ctk config unset {ACCESS}'")


def find_obstacles(host: Host) -> Iterator[Obstacle]:
    """Yield what keeps GPUs from being open to their holders alone, the cheapest to find out first."""
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
    # Only root can start what is tried there.
    elif host.is_this_machine and not os.geteuid() and (failed := tracker.nodes.find_obstacle()):
        problem = f"systemd cannot close other GPUs to a job here ({failed})"
        yield Obstacle(
            problem=problem, advice="this needs D-Bus, and device filters in systemd and the kernel (CONFIG_CGROUP_BPF)"
        )


def find_display(host: Host) -> str:
    """Return the connector of an AMD GPU that shows a picture, "" where none does."""
    cards = tuple(f"{card}-" for card in Tracker(host).nodes.cards())
    for name in host.names(DRM_CLASS):
        attributes = [f"{DRM_CLASS}/{name}/{attribute}" for attribute in ("status", "enabled")]
        # `connected` alone is a cable; `enabled` says that a CRTC drives it, that of the console among them.
        if name.startswith(cards) and host.read_attributes(attributes) == ["connected", "enabled"]:
            return name
    return ""
