"""What a container claims before anything is decided, the book that says who has what, and leases of the container."""

from __future__ import annotations

import posix
import time

from amd_gpu_tracker.records.lease import BY_API, Holder, Lease, ProcessId, boot_offset
from amd_gpu_tracker.records.lock import KernelLock
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from contextlib import AbstractContextManager

    from amd_gpu_tracker.life.lease_scan import LeaseScan
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lock import Lock
    from amd_gpu_tracker.records.policy import Policy
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation

# That of this process, which is the host's: a container that joins it is in no pod.
OWN_IPC = "/proc/self/ns/ipc"


class Book:
    """What is written down of a host's GPUs, the processes by which that is judged, and the lock for changing it."""

    def __init__(self, state: State, processes: Processes, lock: Lock = KernelLock) -> None:
        self.state = state
        self.processes = processes
        self.lock = lock

    def locked(self) -> AbstractContextManager[None]:
        """Make the directories that are missing and hold the lock; NotPermitted, LockTimeout."""
        self.state.prepare()
        return self.lock(self.state.lock_path)

    def locked_by_root(self) -> AbstractContextManager[None]:
        """Hold the lock for a change that only root may make; NotPermitted, LockTimeout."""
        # The lock of a user's own directory guards nothing that root has.
        if self.state.is_rootless:
            from amd_gpu_tracker.errors import needs_root

            raise needs_root()
        return self.locked()


class LeaseTerms(Value):
    """What a reservation is given with, as its lease has it; a container with the token of the digest has its GPUs."""

    token_digest: str = ""
    # Whose it is, by the rule for which group, when it ends by itself, when it is ended, and from when on for others.
    person: int | None = None
    group: int | None = None
    until: float = 0.0
    limit: float = 0.0
    preemptible: float = 0.0


class Claim(LeaseTerms):
    """What is asked for: the GPUs that are `wanted`, for `holder`, by these `ways`.

    `creators` are processes that may extend the holder's living lease: those that are making this container now.
    """

    holder: Holder
    wanted: Sequence[GpuLocation]
    ways: tuple[str, ...]
    # In which words it asks: a number counts only while no GPU before it is lost.
    asked: Sequence[str] = ()
    creators: Collection[ProcessId] = ()
    # By which generic resources Docker Swarm promised this, and how many MiB of a GPU where not whole ones.
    kinds: tuple[str, ...] = ()
    vram_mb: int = 0
    # It can reach every GPU, whatever it asks for.
    is_privileged: bool = False
    # The path of the IPC namespace that it joins, and the pod in the lease, where pods share exclusive GPUs.
    ipc: str = ""
    pod: str = ""
    # What the container may have a token in, and what was handed on: the name of the reservation, the digest of its
    # token, and when its job began.
    environment: Sequence[str] = ()
    reservation: str = ""
    reservation_digest: str = ""
    begun: float = 0.0
    # It is tried again and again, and that is nothing to write down.
    is_waiting: bool = False


def read_own_lease(book: Book, claim: Claim) -> Lease | None:
    """Return the living lease of the container that claims, None where it has none or one that is left over."""
    lease = book.state.read_lease(book.state.lease_path(claim.holder.key))
    # What was kept for this container is given to it anew.
    if lease is None or lease.is_kept:
        return None
    # Ordinary starts find nothing to judge and do not wait for this.
    from amd_gpu_tracker.life.liveness import judge

    verdict = judge(lease, book.processes)
    is_over = not verdict.is_alive or (not verdict.is_proved and _is_left_over(lease, claim))
    return None if is_over else lease


def prune_others(book: Book, paths: Iterable[str]) -> LeaseScan:
    """Return what other leases say, as `prune_leases`, without what is kept for the service that claims."""
    from amd_gpu_tracker.life.lease_scan import prune_leases

    scan = prune_leases(book.state, book.processes, paths)
    if not any(lease.unit for lease in scan.living):
        return scan
    from amd_gpu_tracker.life.restarts import take_up

    return scan.replace(living=take_up(book.state, scan.living))


def _is_left_over(lease: Lease, claim: Claim) -> bool:
    """Return whether a lease that cannot be judged is left over from an earlier run of the container that claims.

    An engine that was started again in another pid namespace starts its containers again under their ids. A runtime
    makes none while it has one of the same id; what is reserved by the API is no container.
    """
    if BY_API in (*lease.ways, *claim.ways):
        return False
    if claim.creators:
        return True
    from amd_gpu_tracker.life.liveness import is_known_to_runtime

    return not is_known_to_runtime(lease.root, lease.container_id)


def new_lease(claim: Claim, processes: Processes) -> Lease:
    """Return the lease of a claim that is met; fields that both have are as in the claim."""
    return Lease(
        **claim.holder.as_dict(),
        **{name: field for name, field in vars(claim).items() if name in Lease._names},
        gpus=tuple([gpu.key for gpu in claim.wanted]),
        since=time.time(),
        boot_offset=boot_offset(),
        boot_id=processes.boot_id,
        namespace=processes.namespace,
    )


def extended_lease(own: Lease, claim: Claim) -> Lease:
    """Return the lease of a container that claims more than it has already."""
    more = [gpu.key for gpu in claim.wanted if gpu.key not in own.gpus]
    return own.replace(
        gpus=(*own.gpus, *more),
        ways=(*own.ways, *(way for way in claim.ways if way not in own.ways)),
        init=claim.holder.init or own.init,
    )


def in_pod(state: State, policy: Policy, claim: Claim) -> Claim:
    """Return a claim with the pod of its container, where one pod has exclusive GPUs together.

    The pod is the IPC namespace that the engine lets a container join, by the kernel's number: labels and annotations
    may come from an image. What a user's own engine writes is no pod, because it has no exclusive GPUs.
    """
    is_asked = policy.is_exclusive_to_pods and claim.ipc and not state.is_rootless
    return claim.replace(pod=_find_pod(claim.ipc)) if is_asked else claim


def _find_pod(path: str) -> str:
    try:
        own, found = posix.stat(OWN_IPC), posix.stat(path)
    except OSError:
        return ""
    # Numbers of namespaces are those of one file system of the kernel. One is used again when nothing is left in it:
    # of two living containers that joined the same number, both are in it.
    is_other = found.st_dev == own.st_dev and found.st_ino != own.st_ino
    return f"ipc:{found.st_ino}" if is_other else ""
