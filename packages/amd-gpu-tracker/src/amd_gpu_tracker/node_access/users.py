"""Who may open which nodes, where only reserved GPUs may be opened: entries that follow from the leases."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from amd_gpu_tracker.life.lease_scan import scan_leases
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.node_access.acl import read_users, set_users
from amd_gpu_tracker.records.job_ids import owner_of
from amd_gpu_tracker.records.lease import BY_API, Lease
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.device_nodes import KFD_PATH
from amdgpu_discovery.errors import FileError, reason
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus


class NodeUsers:
    """The nodes of one host. Nothing is remembered: leases say who may open what, and nodes say who can."""

    def __init__(self, host: Host) -> None:
        self._host = host
        # Whether only reserved GPUs may be opened; where not, the nodes are their groups' business.
        self.is_reserved = False

    @property
    def watched(self) -> tuple[str, ...]:
        """Return where others may change who can open nodes."""
        return tuple(map(self._host.path, (KFD_PATH, "/dev/dri"))) if self.is_reserved else ()

    def open(self, owner: int, gpus: Iterable[GpuLocation]) -> None:
        """Let a user open GPUs that were just given; FileError. Root needs no entry."""
        if not (self.is_reserved and owner):
            return
        for path in _nodes_of(gpus):
            try:
                set_users(self._host.path(path), read_users(self._host.path(path)) | {owner})
            except FileNotFoundError:
                # ROCm does without a card node; what a missing render node means, a start says.
                continue
            except OSError as error:
                raise FileError(
                    f"{path} cannot be opened to user {owner}: {reason(error)}", hint="run 'amd-ctk doctor'"
                ) from error

    def follow(self, leases: Iterable[Lease]) -> None:
        """Let all users open the GPUs that they have reserved, and no others."""
        if self.is_reserved:
            follow_leases(self._host, leases)


def follow_leases(host: Host, leases: Iterable[Lease] | None = None) -> None:
    """Let all users open the GPUs of these leases, by default all living ones, and no others."""
    for path, uids in find_users(host, leases).items():
        # What keeps this from being done, doctor finds.
        with suppress(OSError):
            set_users(host.path(path), uids)


def find_difference(host: Host) -> str:
    """Return a node that others may open than those who have its GPU, "" if there is none."""
    for path, uids in find_users(host).items():
        with suppress(FileNotFoundError):
            if read_users(host.path(path)) != uids:
                return path
    return ""


def find_users(host: Host, leases: Iterable[Lease] | None = None) -> dict[str, set[int]]:
    """Return who may open each node of the GPUs that can be reserved, by these leases, by default all that live."""
    if leases is None:
        state = State(host)
        leases = scan_leases(state, Processes(), state.lease_paths()).living
    gpus = locate_gpus(host)
    users: dict[str, set[int]] = {path: set() for path in _nodes_of(gpus)}
    for lease in leases:
        if (owner := owner_of(lease.container_id)) and BY_API in lease.ways:
            for path in _nodes_of(gpu for gpu in gpus if gpu.key in lease.gpus):
                users[path].add(owner)
    return users


def _nodes_of(gpus: Iterable[GpuLocation]) -> list[str]:
    """Return the nodes by which GPUs are opened; none where there is no GPU."""
    nodes = [path for gpu in gpus for path in (gpu.render_path, gpu.card_path) if path]
    return [KFD_PATH, *nodes] if nodes else []
