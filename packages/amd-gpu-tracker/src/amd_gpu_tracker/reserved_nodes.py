"""Device nodes that only users who have reserved the GPU can open: whether a host can do that, and how."""

from __future__ import annotations

from amd_gpu_tracker.node_access.device_filter import POLICY, allowed_devices, read_devices
from amd_gpu_tracker.node_access.nodes import (
    RULE_FILE,
    close_nodes,
    find_devices,
    find_nodes,
    find_open,
    give_back,
    is_closed,
)
from amd_gpu_tracker.node_access.scope import find_obstacle
from amd_gpu_tracker.node_access.users import find_difference, find_users, follow_leases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


class ReservedNodes:
    """The device nodes of the GPUs of one host."""

    # This rule closes them at the next boot.
    rule_file = RULE_FILE

    def __init__(self, host: Host) -> None:
        """Read the nodes of this host."""
        self._host = host

    def paths(self) -> list[str]:
        """Return all nodes of the amdgpu driver, card2 before card10."""
        return sorted(find_nodes(self._host), key=lambda path: (len(path), path))

    def cards(self) -> set[str]:
        """Return the cards as /sys/class/drm names them; displays are connected to these."""
        return {f"card{device.card_minor}" for device in find_devices(self._host) if device.card_minor is not None}

    def are_closed(self) -> bool:
        """Return whether they were closed and not given back."""
        return is_closed(self._host)

    def find_open(self) -> str:
        """Return what differs from the result of `close`, "" for nothing."""
        return find_open(self._host)

    def find_wrong(self) -> str:
        """Return a node that users can open without having its GPU, "" if there is none; for root."""
        return find_difference(self._host)

    def find_obstacle(self) -> str:
        """Return why systemd cannot close a device to a process of this machine, "" if it can; for root."""
        return find_obstacle()

    def close(self) -> None:
        """Allow only users who have reserved a GPU to open its nodes, also after a reboot; NotPermitted, FileError."""
        close_nodes(self._host, find_users(self._host))

    def update(self) -> None:
        """Allow each user to open the nodes of the GPUs that this user has reserved by now, and no others."""
        follow_leases(self._host)

    def give_back(self) -> bool:
        """Allow the groups of the nodes to open them again; False if they could already."""
        return give_back(self._host)

    def unit_properties(self, gpus: Iterable[GpuLocation]) -> list[str]:
        """Return the properties of a systemd unit that can open these GPUs and no others."""
        allowed = allowed_devices(gpus, read_devices(self._host))
        return [f"DevicePolicy={POLICY}", *(f"DeviceAllow={device} {access}" for device, access in allowed)]
