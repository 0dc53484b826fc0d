"""The tracker's state as a value: who uses which GPU now."""

from __future__ import annotations

from amd_gpu_tracker.book.lease import Lease, boot_offset, on_this_clock
from amd_gpu_tracker.book.policy import EXCLUSIVE, NO_ID, SHARED, TrackedGpu
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.errors import GpusChanged, Message
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.leases.lease_scan import LeaseScan
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

    # A lease and its user; None for root and for the caller.
    OwnedLease = tuple[Lease, int | None]


PCI_DEVICES = "/sys/bus/pci/devices"


class ContainerUse(Value):
    """A container that uses a GPU.

    Attributes:
        container_id: Id of the container, or name of the reservation.
        root: The runtime's `--root`; "" for its default.
        bundle: Directory of the container's bundle; "" for a reservation of a program.
        since: When it got its GPUs, in seconds since 1970 (UTC).
        ways: How it asked for GPUs: `env`, `swarm`, `cdi`, `device` or `api`.
        kinds: Generic resources by which Docker Swarm chose.
        vram_mb: How much of the GPU's memory it was promised, in MiB; 0 for none.
        user: Uid of a rootless container's user; None for containers of root and for the caller's own.
        person: Uid of the job's owner; None if unknown.
        job: Name of the job or reservation that it is, or whose GPUs it was given, without the number of its owner;
            None if there is none.
        until: Its end or time limit, in seconds since 1970 (UTC); None without one.
        idle_since: Since when its GPUs have been idle, in seconds since 1970 (UTC); None if unknown.
        preemptible_at: From when it may end for waiting jobs; None for never.
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
    job: str | None = None
    until: float | None = None
    idle_since: float | None = None
    preemptible_at: float | None = None


class GpuRow(Value):
    """A GPU with the names that every list shows.

    Attributes:
        number: Number of the GPU; for a lost GPU, its former number.
        uuid: Unique id, such as `0xEA35F57CC80DEB35`; `N/A` if the hardware has none.
        pci_address: PCI address, such as `0000:03:00.0`.
        key: `GpuLocation.key`, which stays the same when numbers change.
    """

    number: int
    uuid: str
    pci_address: str
    key: str


class GpuUse(GpuRow):
    """A GPU and the containers that use it.

    Attributes:
        accessibility: `shared` or `exclusive`; "" if GPUs are not tracked.
        containers: The containers that use it, oldest first.
        has_unreadable: Whether an unreadable reservation is, or may be, about this GPU.
        tracked_number: Its number when GPUs were tracked, if that differs because another GPU has been lost since; None
            otherwise. If it differs, requests by number are refused.
        drained: The reason why it is drained, "" if none was given; None if it is not drained.
        sick: What is wrong with it, if root has seen that its driver gives it up, so that it is not given out; ""
            otherwise.
        dirty: What an ended job has left on it, so that it is not given out; "" for nothing.
    """

    accessibility: str
    containers: tuple[ContainerUse, ...]
    has_unreadable: bool = False
    tracked_number: int | None = None
    drained: str | None = None
    sick: str = ""
    dirty: str = ""

    @property
    def has_moved(self) -> bool:
        """Return whether it has another number than when GPUs were tracked, so that requests by number are refused."""
        return self.tracked_number not in (None, self.number)

    @property
    def listed_number(self) -> str:
        """Return its number in a list, where a lost GPU may have the same: `1 was 2`, if it had another."""
        return f"{self.number} was {self.tracked_number}" if self.has_moved else str(self.number)

    @property
    def name(self) -> str:
        """Return its number, with its PCI address if no command takes the number."""
        return f"GPU {self.number}{f' at {self.pci_address}' if self.has_moved else ''}"


class LostGpu(GpuUse):
    """A tracked GPU that the host no longer has: its former properties and its users.

    Attributes:
        since: When it was first missed, in seconds since 1970 (UTC); None if this is not recorded yet.
        reason: How it is lost, as a clause.
    """

    since: float | None
    reason: str


class Status(Value):
    """Who uses which GPU.

    Attributes:
        enabled: Whether GPUs are tracked.
        gpus: The GPUs of the host, by number; empty while the tracker is disabled.
        lost: The tracked GPUs that the host no longer has.
        problems: A sentence about each state file that cannot be read.
        privileged: Containers that run with `--privileged` and can reach every GPU, also those that they do not use.
    """

    enabled: bool
    gpus: tuple[GpuUse, ...] = ()
    lost: tuple[LostGpu, ...] = ()
    problems: tuple[str, ...] = ()
    privileged: tuple[ContainerUse, ...] = ()

    @property
    def tracked(self) -> list[GpuUse]:
        """Return the GPUs of the host and the lost ones, in the order in which they are tracked."""
        return sorted(
            (*self.gpus, *self.lost), key=lambda gpu: gpu.number if gpu.tracked_number is None else gpu.tracked_number
        )


def read_status(state: State, processes: Processes) -> Status:
    """Return who uses what, as far as the caller may see it; GpusChanged if the tracked GPUs have changed."""
    return read_status_with_leases(state, processes)[0]


def read_status_with_leases(state: State, processes: Processes) -> tuple[Status, list[OwnedLease]]:
    """Return who uses what, and the living leases behind it: those of root and of the caller, then those of users."""
    policy = state.read_policy()
    return _read_tracked(state, processes, policy) if policy.enabled else (Status(enabled=False), [])


def _read_tracked(state: State, processes: Processes, policy: Policy) -> tuple[Status, list[OwnedLease]]:
    # Imported here, because most hosts track nothing.
    from amd_gpu_tracker.book.matching import match_gpus
    from amd_gpu_tracker.leases.lease_scan import scan_leases
    from amd_gpu_tracker.leases.user_leases import read_user_leases

    gpus = locate_gpus(state.host)
    # The leases of root and, if the caller is a user, the caller's own.
    states = {each.run_directory: each for each in (State(state.host), state)}
    scan = scan_leases(state, processes, [path for each in states.values() for path in each.lease_paths()])
    users = read_user_leases(state, processes)
    leases = [*((lease, None) for lease in scan.living), *((user.lease, user.uid) for user in users.proved)]
    try:
        match = match_gpus(state.host, policy, gpus)
    except GpusChanged as error:
        raise GpusChanged(error.gone, tuple(_describe_holders(leases, error.gone))) from None
    uses_by_key = _uses_by_key(leases)
    status = Status(
        enabled=True,
        gpus=tuple(_describe_gpus(gpus, match.policy, scan, uses_by_key, _reasons_by_state(state))),
        lost=tuple(
            _lost_gpu(state.host, number, policy.gpus[number], tuple(uses_by_key.get(policy.gpus[number].key, ())))
            for number in match.lost
        ),
        problems=(*map(str, scan.unreadable), *users.problems),
        privileged=tuple(_use(lease, None) for lease in scan.living if lease.is_privileged),
    )
    return status, leases


def _describe_gpus(
    gpus: Iterable[GpuLocation],
    policy: Policy,
    scan: LeaseScan,
    uses_by_key: Mapping[str, Sequence[ContainerUse]],
    withheld: Mapping[str, Mapping[str, str]],
) -> Iterator[GpuUse]:
    """Yield for each GPU what the policy and the leases say about it."""
    exclusive_keys = policy.exclusive_keys
    tracked_number = {gpu.key: number for number, gpu in enumerate(policy.gpus)}
    for gpu in gpus:
        yield GpuUse(
            number=gpu.number,
            uuid=gpu.uuid,
            pci_address=str(gpu.pci_address),
            key=gpu.key,
            accessibility=EXCLUSIVE if gpu.key in exclusive_keys else SHARED,
            containers=tuple(uses_by_key.get(gpu.key, ())),
            has_unreadable=scan.may_be_named(gpu.key),
            tracked_number=None if tracked_number[gpu.key] == gpu.number else tracked_number[gpu.key],
            drained=withheld["drained"].get(gpu.key),
            sick=withheld["sick"].get(gpu.key, ""),
            dirty=withheld["dirty"].get(gpu.key, ""),
        )


def title_with_name(lease: Lease) -> str:
    """Return the title of the holder of a lease for a sentence, with the name of the person."""
    # Imported here, because few commands show people.
    from amd_gpu_tracker.book.kinds import kind_of
    from amdgpu_discovery.usage.people import title_of_person

    message = Message(text=kind_of(lease).title(), people=(lease.person,) if lease.person else ())
    return message.told(title_of_person)


def _reasons_by_state(state: State) -> dict[str, dict[str, str]]:
    """Return by key why GPUs are not given out, for each word of `Drain.state`."""
    found: dict[str, dict[str, str]] = {"drained": {}, "sick": {}, "dirty": {}}
    if state.has_drains:
        from amd_gpu_tracker.book.drains import read_drains

        for each in read_drains(state.host):
            found[each.state][each.key] = each.why
    return found


def _lost_gpu(host: Host, number: int, gpu: TrackedGpu, containers: tuple[ContainerUse, ...]) -> LostGpu:
    is_on_bus = host.stat(f"{PCI_DEVICES}/{gpu.pci_address}") is not None
    return LostGpu(
        number=number,
        key=gpu.key,
        uuid="N/A" if gpu.unique_id == NO_ID else f"0x{int(gpu.unique_id, 16):X}",
        pci_address=gpu.pci_address,
        accessibility=EXCLUSIVE if gpu.exclusive else SHARED,
        containers=containers,
        since=gpu.lost_since or None,
        reason=f"the driver no longer lists PCI {gpu.pci_address}"
        if is_on_bus
        else f"PCI {gpu.pci_address} left the bus",
    )


def _describe_holders(leases: Iterable[OwnedLease], gone: Collection[str]) -> Iterator[str]:
    for lease, user in leases:
        keys = sorted(key for key in lease.gpus if key in gone)
        if keys:
            # A user's lease is trusted only about that user.
            whose = lease if user is None else lease.replace(person=user)
            yield f"{title_with_name(whose)} still has {', '.join(keys)}, which is missing or has changed"


def _uses_by_key(leases: Iterable[OwnedLease]) -> dict[str, list[ContainerUse]]:
    """Return the users of each GPU, oldest first. A lease may name a GPU twice."""
    found: dict[str, list[ContainerUse]] = {}
    for lease, user in sorted(leases, key=lambda item: (item[0].since, item[0].container_id)):
        for key in dict.fromkeys(lease.gpus):
            found.setdefault(key, []).append(_use(lease, user))
    return found


def _use(lease: Lease, user: int | None) -> ContainerUse:
    from amd_gpu_tracker.book.kinds import kind_of

    return ContainerUse(
        container_id=lease.container_id,
        root=lease.root,
        bundle=lease.bundle,
        since=on_this_clock(lease.since, lease.boot_offset),
        ways=lease.ways,
        kinds=lease.kinds,
        vram_mb=lease.vram_mb,
        user=user,
        # A user's lease is trusted only about that user.
        person=lease.person if user is None else user,
        job=_job_name(lease, user),
        until=_to_wall_clock(lease.limit or kind_of(lease).end),
        idle_since=_to_wall_clock(lease.idle_since),
        preemptible_at=_to_wall_clock(lease.preemptible),
    )


def _job_name(lease: Lease, user: int | None) -> str | None:
    """Return the name of a job without its owner; None if a user's lease names another owner."""
    owner, _, name = lease.job.rpartition("/")
    is_anothers = user is not None and owner not in ("", str(user))
    return None if is_anothers else name or None


def _to_wall_clock(moment: float) -> float | None:
    """Return a time since boot as one since 1970, None for 0."""
    return moment + boot_offset() if moment else None
