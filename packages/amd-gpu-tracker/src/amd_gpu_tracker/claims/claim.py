"""A claim before anything is decided, the book of a host's reservations, and the lease that a claim becomes."""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.book.lease import BY_API, Holder, Lease, ProcessId, boot_offset
from amd_gpu_tracker.book.lock import KernelLock
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    from amd_gpu_tracker.book.lock import Lock
    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.leases.lease_scan import LeaseScan
    from amd_gpu_tracker.leases.pod_device import PodDevice
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.gpu import GpuLocation

    # Returns pods by the key of their GPU.
    FindPods = Callable[[], Mapping[str, PodDevice]]

# The IPC namespace of this process, which is the host's: a container that joins it is in no pod.
OWN_IPC = "/proc/self/ns/ipc"


class Book:
    """A host's recorded state, the processes by which leases are judged, and the lock for changes."""

    def __init__(self, state: State, processes: Processes, lock: Lock = KernelLock, pods: FindPods = dict) -> None:
        """Use the files of `state`. `pods` returns the pods to which kubelet has given GPUs; no start asks for them."""
        self.pods = pods
        self.state = state
        self.processes = processes
        self.lock = lock

    def locked(self) -> AbstractContextManager[None]:
        """Make missing directories and hold the lock; NotPermitted, LockTimeout."""
        self.state.prepare()
        return self.lock(self.state.lock_path)

    def locked_by_root(self) -> AbstractContextManager[None]:
        """Hold the lock for a change that only root may make; NotPermitted, LockTimeout."""
        # The lock in a user's own directory does not protect root's state.
        if self.state.is_rootless:
            from amd_gpu_tracker.errors import needs_root

            raise needs_root()
        return self.locked()


class LeaseTerms(Value):
    """The terms of a reservation, as in its lease. A container with the token of `token_digest` shares its GPUs."""

    token_digest: str = ""
    # The owner; the group whose rule allowed it; its end if no process has it; the time limit of its job; and the time
    # from which it may end for other jobs.
    person: int | None = None
    group: int | None = None
    until: float = 0.0
    limit: float = 0.0
    preemptible: float = 0.0
    # How much memory of each GPU it gets, in MiB; 0 for whole GPUs.
    vram_mb: int = 0


class Claim(LeaseTerms):
    """A request for the GPUs `wanted`, for `holder`, by these `ways`.

    `creators` are processes that may extend the holder's living lease, because they are making this container now.
    """

    holder: Holder
    wanted: Sequence[GpuLocation]
    ways: tuple[str, ...]
    # The parts of the request. A number in it is valid only while neither its GPU nor one before it is lost.
    requests: Sequence[str] = ()
    # The numbers of the wanted GPUs as the request names them; those that it does not name come last.
    order: Sequence[int] = ()
    creators: Collection[ProcessId] = ()
    # The generic resources by which Docker Swarm promised this.
    kinds: tuple[str, ...] = ()
    # For a part of the wanted GPUs: the memory that they have, in MiB by key, and whether exclusive ones are shared.
    totals: Mapping[str, int] = {}
    shares_by_vram: bool = False
    # Whether the container can reach every GPU, whatever it requests.
    is_privileged: bool = False
    # The path of the IPC namespace that it joins; and the pod in the lease, if pods share exclusive GPUs.
    ipc: str = ""
    pod: str = ""
    # The environment, perhaps with a token; and the reservation handed on, its token's digest, and its job's start.
    environment: Sequence[str] = ()
    reservation: str = ""
    reservation_digest: str = ""
    begun: float = 0.0
    # Whether it is tried again and again; then its refusals are not recorded.
    is_waiting: bool = False


def read_own_lease(book: Book, claim: Claim) -> Lease | None:
    """Return the living lease of the container that claims; None if it has none, or an outdated one."""
    lease = book.state.read_lease(book.state.lease_path(claim.holder.key))
    # A lease that was kept for this container's restart is written again.
    if lease is None or lease.will_restart:
        return None
    # Imported here, because most starts have nothing to judge.
    from amd_gpu_tracker.leases.liveness import judge

    verdict = judge(lease, book.processes)
    is_over = not verdict.is_alive or (not verdict.is_proved and _is_left_over(lease, claim))
    return None if is_over else lease


def prune_others(book: Book, paths: Iterable[str]) -> LeaseScan:
    """Return other leases as `prune_leases` does, without those kept for the restart of the service that claims."""
    from amd_gpu_tracker.leases.lease_scan import prune_leases

    scan = prune_leases(book.state, book.processes, paths)
    if not any(lease.unit for lease in scan.living):
        return scan
    from amd_gpu_tracker.leases.restarts import drop_restart_leases

    return scan.replace(living=drop_restart_leases(book.state, scan.living))


def _is_left_over(lease: Lease, claim: Claim) -> bool:
    """Return whether a lease that cannot be judged is left over from an earlier run of this container.

    An engine that restarts in another pid namespace starts its containers again under their ids. A runtime makes no
    container while one with its id exists. Reservations by the API are no containers.
    """
    if lease.is_by_name or BY_API in claim.ways:
        return False
    if claim.creators:
        return True
    from amd_gpu_tracker.leases.liveness import is_known_to_runtime

    return not is_known_to_runtime(lease.root, lease.container_id)


def new_lease(claim: Claim, processes: Processes) -> Lease:
    """Return the lease of a claim that is met; it has the fields of the claim."""
    return Lease(
        **claim.holder.as_dict(),
        **{name: field for name, field in vars(claim).items() if name in Lease.fields()},
        gpus=tuple([gpu.key for gpu in claim.wanted]),
        since=time.time(),
        boot_offset=boot_offset(),
        boot_id=processes.boot_id,
        namespace=processes.namespace,
    )


def extended_lease(own: Lease, claim: Claim) -> Lease:
    """Return the lease of a container that claims more GPUs than it already has."""
    more = [gpu.key for gpu in claim.wanted if gpu.key not in own.gpus]
    return own.replace(
        gpus=(*own.gpus, *more),
        ways=(*own.ways, *(way for way in claim.ways if way not in own.ways)),
        init=claim.holder.init or own.init,
        vram_mb=min(own.vram_mb, claim.vram_mb) if more else own.vram_mb,
    )


def in_pod(state: State, policy: Policy, claim: Claim) -> Claim:
    """Return a claim with the pod of its container, if pods have exclusive GPUs together.

    The pod is the IPC namespace that the engine lets a container join, by its inode number, because labels and
    annotations may come from an image. Containers of a user's own engine are in no pod: they have no exclusive GPUs.
    """
    is_asked = policy.is_exclusive_to_pods and claim.ipc and not state.is_rootless
    return claim.replace(pod=_find_pod(claim.ipc)) if is_asked else claim


def _find_pod(path: str) -> str:
    try:
        own, found = posix.stat(OWN_IPC), posix.stat(path)
    except OSError:
        return ""
    # Namespaces have numbers on one file system of the kernel, which reuses a number once its namespace is gone. So two
    # living containers that joined the same number are in the same namespace.
    is_other = found.st_dev == own.st_dev and found.st_ino != own.st_ino
    return f"ipc:{found.st_ino}" if is_other else ""
