"""Who uses which GPU now, as a value: what the tracker knows."""

from __future__ import annotations

from amd_gpu_tracker.life.lease_scan import scan_leases
from amd_gpu_tracker.life.user_leases import read_user_leases
from amd_gpu_tracker.records.identity import require_same_gpus
from amd_gpu_tracker.records.policy import EXCLUSIVE, SHARED
from amd_gpu_tracker.records.state import State
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import Lease

    # A lease, and the user whose it is; None for root and for the caller.
    OwnedLease = tuple[Lease, int | None]


class ContainerUse(Value):
    """A container that uses a GPU.

    Attributes:
        container_id: Id of the container, or name of the reservation.
        root: The runtime's `--root`; "" for its default.
        bundle: Directory of the container's bundle; "" for a reservation of a program.
        since: When it got its GPUs, in seconds since 1970 (UTC).
        ways: How it asked for GPUs: `env`, `swarm`, `cdi`, `device` or `api`.
        kinds: Generic resources by which Docker Swarm chose.
        vram_mb: How much memory of a shared GPU Swarm promised, in MiB; 0 where it promised none.
        user: Uid of the user whose rootless container it is; None for containers of root and for the caller's own.
        person: Uid of the person whose job it is; None where nobody said so.
    """

    container_id: str
    root: str
    bundle: str
    since: float
    ways: tuple[str, ...]
    kinds: tuple[str, ...] = ()
    vram_mb: int = 0
    user: int | None = None
    person: int | None = None


class GpuUse(Value):
    """A GPU and the containers that use it.

    Attributes:
        number: Number of the GPU.
        uuid: Unique id, such as `0xEA35F57CC80DEB35`; `N/A` where the hardware has none.
        pci_address: PCI address, such as `0000:03:00.0`.
        accessibility: `shared` or `exclusive`.
        containers: The containers that use it, oldest first.
        has_unreadable: Whether a reservation that cannot be read is of this GPU, or may be.
    """

    number: int
    uuid: str
    pci_address: str
    accessibility: str
    containers: tuple[ContainerUse, ...]
    has_unreadable: bool = False


class Status(Value):
    """Who uses which GPU.

    Attributes:
        enabled: Whether GPUs are tracked.
        gpus: The GPUs that are tracked, by number; empty while the tracker is disabled.
        problems: A sentence about each state file that cannot be read.
        privileged: Containers that run with `--privileged` and can reach every GPU.
    """

    enabled: bool
    gpus: tuple[GpuUse, ...] = ()
    problems: tuple[str, ...] = ()
    # Containers that can reach every GPU, also those that they do not use.
    privileged: tuple[ContainerUse, ...] = ()


def read_status(state: State, processes: Processes) -> Status:
    """Return who uses what, as far as the caller may see it. GpusChanged where the GPUs are no longer those tracked."""
    return read_status_with_leases(state, processes)[0]


def read_status_with_leases(state: State, processes: Processes) -> tuple[Status, list[OwnedLease]]:
    """Return who uses what, and the living leases that say so: those of root and of the caller, then those of users."""
    policy = state.read_policy()
    if not policy.enabled:
        return Status(enabled=False), []
    gpus = locate_gpus(state.host)
    require_same_gpus(state.host, policy, gpus)
    scan = scan_leases(state, processes, _own_lease_paths(state))
    users = read_user_leases(state, processes)
    leases = [*((lease, None) for lease in scan.living), *((user.lease, user.uid) for user in users.proved)]
    uses_by_key = _uses_by_key(leases)
    exclusive_keys = policy.exclusive_keys
    uses = tuple(
        GpuUse(
            number=gpu.number,
            uuid=f"0x{gpu.unique_id:X}" if gpu.unique_id else "N/A",
            pci_address=str(gpu.pci_address),
            accessibility=EXCLUSIVE if gpu.key in exclusive_keys else SHARED,
            containers=tuple(uses_by_key.get(gpu.key, ())),
            has_unreadable=scan.may_be_used(gpu.key),
        )
        for gpu in gpus
    )
    status = Status(
        enabled=True,
        gpus=uses,
        problems=(*map(str, scan.unreadable), *users.problems),
        privileged=tuple(_use(lease, None) for lease in scan.living if lease.is_privileged),
    )
    return status, leases


def _own_lease_paths(state: State) -> list[str]:
    """Return the leases of root, and those of the caller who is a user."""
    states = {each.run_directory: each for each in (State(state.host), state)}
    return [path for each in states.values() for path in each.lease_paths()]


def _uses_by_key(leases: Iterable[OwnedLease]) -> dict[str, list[ContainerUse]]:
    """Return who uses each GPU, in the order in which they came; a lease may name a GPU twice."""
    found: dict[str, list[ContainerUse]] = {}
    for lease, user in sorted(leases, key=lambda item: (item[0].since, item[0].container_id)):
        for key in dict.fromkeys(lease.gpus):
            found.setdefault(key, []).append(_use(lease, user))
    return found


def _use(lease: Lease, user: int | None) -> ContainerUse:
    return ContainerUse(
        container_id=lease.container_id,
        root=lease.root,
        bundle=lease.bundle,
        since=lease.since,
        ways=lease.ways,
        kinds=lease.kinds,
        vram_mb=lease.vram_mb,
        user=user,
        person=user if lease.person is None else lease.person,
    )
