"""Device nodes that only users who have reserved the GPU can open, if the host is set up so.

This keeps no state: leases determine who may open which nodes, and the nodes show who can.
"""

from __future__ import annotations

from contextlib import suppress

from amd_gpu_sharing.node_access import nodes, scope
from amd_gpu_sharing.node_access.nodes import read_users, set_users
from amd_gpu_tracker.book.job_ids import owner_of
from amd_gpu_tracker.book.lease import Lease, held_by_name
from amd_gpu_tracker.book.state import RULE_FILE, State
from amd_gpu_tracker.leases.lease_scan import scan_leases
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


class ReservedNodes:
    """The device nodes of the GPUs of one host."""

    # The udev rule that closes them at the next boot.
    rule_file = RULE_FILE

    def __init__(self, host: Host) -> None:
        """Manage the nodes of this host."""
        self._host = host

    def paths(self) -> list[str]:
        """Return all nodes of the amdgpu driver, card2 before card10."""
        return sorted(nodes.find_nodes(self._host), key=lambda path: (len(path), path))

    def cards(self) -> set[str]:
        """Return the cards by their names in /sys/class/drm; displays are connected to these."""
        minors = {device.card_minor for device in nodes.find_devices(self._host)}
        return {f"card{minor}" for minor in minors if minor is not None}

    def are_closed(self) -> bool:
        """Return whether they were closed and not given back."""
        return nodes.is_closed(self._host)

    def find_open(self) -> str:
        """Return what differs from the result of `close`, "" for nothing."""
        return nodes.find_open(self._host)

    def find_wrong(self) -> str:
        """Return a node that users can open without having its GPU, "" if there is none; for root."""
        for path, uids in self._find_users().items():
            with suppress(FileNotFoundError):
                if read_users(self._host.path(path)) != uids:
                    return path
        return ""

    def find_obstacle(self) -> str:
        """Return why systemd cannot close a device to a process of this machine, "" if it can; for root."""
        return scope.find_obstacle()

    def close(self) -> None:
        """Allow only users who have reserved a GPU to open its nodes, also after a reboot; NotPermitted, FileError."""
        nodes.close_nodes(self._host, self._find_users())

    def update(self, leases: Iterable[Lease] | None = None) -> None:
        """Let each user open only the nodes of the GPUs of these leases, by default of all living ones."""
        for path, uids in self._find_users(leases).items():
            # If this fails, doctor finds it.
            with suppress(OSError):
                set_users(self._host.path(path), uids)

    def give_back(self) -> bool:
        """Allow the groups of the nodes to open them again; False if they could already."""
        return nodes.give_back(self._host)

    def unit_properties(self, gpus: Iterable[GpuLocation]) -> list[str]:
        """Return the properties of a systemd unit that can open these GPUs and no others."""
        allowed = scope.allowed_devices(gpus, scope.read_devices(self._host))
        return [f"DevicePolicy={scope.POLICY}", *(f"DeviceAllow={device} {access}" for device, access in allowed)]

    def _find_users(self, leases: Iterable[Lease] | None = None) -> dict[str, set[int]]:
        """Return who may open each node of GPUs by these leases, by default by all living ones."""
        if leases is None:
            state = State(self._host)
            leases = scan_leases(state, Processes(), state.lease_paths()).living
        gpus = locate_gpus(self._host)
        users: dict[str, set[int]] = {path: set() for path in _nodes_of(gpus)}
        for lease in held_by_name(leases):
            if owner := owner_of(lease.container_id):
                for path in _nodes_of(gpu for gpu in gpus if gpu.key in lease.gpus):
                    users[path].add(owner)
        return users


class NodeUsers:
    """Lets users open the nodes of GPUs that the service gives them, if only reserved GPUs may be opened."""

    def __init__(self, host: Host) -> None:
        self._host = host
        # If not set, the groups of the nodes decide.
        self.is_reserved = False

    @property
    def watched(self) -> tuple[str, ...]:
        """Return the paths where others may change who can open nodes."""
        return tuple(map(self._host.path, (KFD_PATH, "/dev/dri"))) if self.is_reserved else ()

    def open(self, owner: int, gpus: Iterable[GpuLocation]) -> None:
        """Let a user open GPUs that were granted now; FileError. Root needs no entry."""
        if not (self.is_reserved and owner):
            return
        for path in _nodes_of(gpus):
            try:
                set_users(self._host.path(path), read_users(self._host.path(path)) | {owner})
            except FileNotFoundError:
                # ROCm does not need a card node. A start reports a missing render node.
                continue
            except OSError as error:
                raise FileError(
                    f"{path} cannot be opened to user {owner}: {reason(error)}", hint="run 'amd-ctk doctor'"
                ) from error

    def update(self, leases: Iterable[Lease]) -> None:
        """Let all users open the GPUs that they have reserved, and no others."""
        if self.is_reserved:
            ReservedNodes(self._host).update(leases)


def _nodes_of(gpus: Iterable[GpuLocation]) -> list[str]:
    """Return the nodes by which GPUs are opened; none if there are no GPUs."""
    nodes = [path for gpu in gpus for path in (gpu.render_path, gpu.card_path) if path]
    return [KFD_PATH, *nodes] if nodes else []
