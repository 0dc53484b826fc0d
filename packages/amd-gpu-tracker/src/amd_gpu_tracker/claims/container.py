"""The tracker's entry point for starting containers: all their GPUs are reserved here, however they got them.

The runtime and the hook of CDI specs pass values: the container, its spec, and the GPUs that it was granted.
"""

from __future__ import annotations

from amd_gpu_tracker.book.lease import BY_CDI, BY_DEVICE, BY_ENVIRONMENT, BY_SWARM, Holder, ProcessId
from amd_gpu_tracker.book.lock import KernelLock
from amd_gpu_tracker.book.state import State, open_state
from amd_gpu_tracker.claims.claim import Book, Claim
from amd_gpu_tracker.claims.hook_entries import is_claim_hook, release_hook
from amd_gpu_tracker.claims.reservation import note_privileged, preview, read_handed_on, reserve, withdraw
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.choices.oci_spec import gpus_in_spec, is_privileged, joined_ipc, names_gpus, shared_cgroup
from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.driver.kfd_topology import KFD_PROCESSES, TOPOLOGY
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.gpu import LEAST_VRAM, MEBIBYTE, GpuLocation, is_vram_used
from amdgpu_discovery.host import Host, read_environment
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_gpu_tracker.claims.chosen import Chooser
    from amdgpu_discovery.choices.oci_spec import Grant
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.health.limits import HealthLimits


# A note about a privileged container is not worth a longer wait.
NOTE_TIMEOUT_SECONDS = 2.0
# Limit for a line in the log: each GPU is a file to read.
MOST_GPUS_READ = 64


class StartingContainer(Value):
    """A container that is being made.

    Attributes:
        container_id: Id of the container.
        spec: Its OCI spec.
        bundle: Directory of its bundle.
        root: The runtime's `--root`; "" if it is not given.
        pid_file: The runtime's `--pid-file`; "" if it is not given.
        creators: The processes that make it; if there are none, this process does.
        init: Its first process; None if there is none yet.
        source: How GPUs came into the spec, if known: BY_CDI, BY_DEVICE.
        run_directory: Where a rootless run has its leases; "" for the usual directory.
    """

    container_id: str
    spec: dict[str, Any]
    bundle: str
    root: str = ""
    pid_file: str = ""
    creators: tuple[ProcessId, ...] = ()
    init: ProcessId | None = None
    source: str = ""
    run_directory: str = ""


class ContainerClaim:
    """The reservation of a starting container.

    Attributes:
        vram_total_mb: Total memory of the GPU of which it reserves a part, in MiB; 0 if it reserves whole GPUs.
    """

    def __init__(self, book: Book, claim: Claim, chooser: Chooser | None = None) -> None:
        """Prepare a `claim` on the reservations in `book`; a `chooser` chooses its GPUs when they are reserved.

        Use `claim_grant` or `claim_nodes` to make one.
        """
        self.vram_total_mb = 0
        self._book = book
        self._claim = claim
        self._chooser = chooser
        self._is_reserved: bool | None = None

    @property
    def gpus(self) -> tuple[GpuLocation, ...]:
        """Return the claimed GPUs by number; none before they have been chosen."""
        return tuple(self._claim.wanted)

    @property
    def poststop_hooks(self) -> list[dict[str, Any]]:
        """Return the hooks that tell the tracker about the container's end."""
        state = self._book.state
        return [release_hook(state.host, state.run_directory if state.is_rootless else "")]

    def reserve(self) -> bool:
        """Reserve all GPUs or raise GpusRefused; False if the runtime already has this container and refuses it."""
        if self._is_reserved is None:
            self._is_reserved = self._reserve()
        if not self._is_reserved:
            _require_known_container(self._claim.holder)
        return self._is_reserved

    def preview(self) -> None:
        """Raise the error of `reserve`, or choose the GPUs that it would choose now, and reserve nothing."""
        if self._chooser is None:
            preview(self._book, self._claim)
            return
        from amd_gpu_tracker.claims.chosen import preview_chosen

        self._take(preview_chosen(self._book, self._claim, self._chooser))

    def is_alone(self) -> bool:
        """Return whether all its GPUs are exclusive and it has the whole of them, so that nobody else can have them."""
        policy = self._book.state.read_policy()
        is_exclusive = policy.enabled and all(gpu.key in policy.exclusive_keys for gpu in self.gpus)
        return is_exclusive and not self.read_part()

    def read_part(self) -> int:
        """Return how much memory of each GPU the job has whose token the container carries, in MiB; 0 for all."""
        handed_on = read_handed_on(self._book, self._claim)
        return handed_on.vram_mb if handed_on else 0

    def find_unreserved_use(self) -> list[str]:
        """Return a sentence about each of its GPUs that is used without a reservation, judged by GPU memory."""
        if not self._is_reserved or not self._may_be_used(self._claim.wanted[:MOST_GPUS_READ]):
            return []
        # Imported here, because mostly no GPU is.
        from amd_gpu_tracker.claims.gpu_health import describe_unreserved_use

        return describe_unreserved_use(self._book.state, self._claim)

    def withdraw(self) -> None:
        """Release the reservation, if there is one."""
        if self._is_reserved:
            withdraw(self._book.state, self._claim.holder)

    def _reserve(self) -> bool:
        if self._chooser is None:
            return reserve(self._book, self._claim)
        from amd_gpu_tracker.claims.chosen import reserve_chosen

        chosen = reserve_chosen(self._book, self._claim, self._chooser)
        self._take(chosen or ())
        return chosen is not None

    def _take(self, chosen: Sequence[Gpu]) -> None:
        self._claim = self._claim.replace(wanted=chosen)
        if chosen and self._claim.vram_mb:
            self.vram_total_mb = (chosen[0].vram_bytes or 0) // MEBIBYTE

    def _may_be_used(self, gpus: Sequence[GpuLocation]) -> bool:
        """Return whether the use of these GPUs is worth judging, which takes as long as the rest of a start."""
        used = self._read_memory(gpus, "mem_info_vram_used")
        if max(used, default=0) <= LEAST_VRAM:
            return False
        totals = self._read_memory(gpus, "mem_info_vram_total")
        whole = [gpu.partition_total <= 1 for gpu in gpus]
        if any(is_one and is_vram_used(*both) for is_one, *both in zip(whole, used, totals, strict=True)):
            return True
        return self._is_computing(gpus)

    def _read_memory(self, gpus: Sequence[GpuLocation], name: str) -> list[int]:
        # The driver keeps these counts itself and asks no GPU.
        paths = [f"{AMDGPU_PCI_DEVICES}/{gpu.pci_address}/{name}" for gpu in gpus]
        texts = self._book.state.host.read_attributes(paths)
        return [int(text) if text.isdecimal() else 0 for text in texts]

    def _is_computing(self, gpus: Sequence[GpuLocation]) -> bool:
        host = self._book.state.host
        if not host.names(KFD_PROCESSES):
            return False
        from amdgpu_discovery.usage.kfd_processes import has_kfd_memory

        paths = [f"{TOPOLOGY}/nodes/{gpu.kfd_node}/gpu_id" for gpu in gpus]
        return has_kfd_memory(host, host.read_attributes(paths))


class PrivilegedNote(ContainerClaim):
    """A privileged container without GPUs. It is recorded, but claims nothing and is never refused."""

    @property
    def poststop_hooks(self) -> list[dict[str, Any]]:
        """Return no hooks: a container that has nothing to do with GPUs keeps its spec."""
        return []

    def _reserve(self) -> bool:
        book = Book(self._book.state, self._book.processes, lambda path: KernelLock(path, NOTE_TIMEOUT_SECONDS))
        note_privileged(book, self._claim)
        return True


def claim_grant(
    host: Host,
    container: StartingContainer,
    grant: Grant,
    *,
    located: Sequence[GpuLocation],
    asked: Sequence[str] = (),
    limits: HealthLimits | None = None,
    claims_all: bool = False,
) -> ContainerClaim | None:
    """Return the claim of a container on the `grant` of its request, None without one.

    `located`, `asked` and `claims_all` are as for `claim_nodes`. If GPUs are yet to be chosen, `limits` decide which
    are healthy, None for the driver's; RequestError if such a container has GPUs already.
    """
    if not (grant.vram or grant.candidates):
        return claim_nodes(
            host,
            container,
            granted=grant.gpus,
            order=grant.order,
            located=located,
            kinds=grant.kinds,
            asked=asked,
            claims_all=claims_all,
        )
    # Imported here, because most requests name GPUs.
    from amd_gpu_tracker.claims.chosen import find_chooser

    book = open_book(host, container)
    claim = Claim(
        holder=holder_of(container, book.processes),
        wanted=(),
        ways=(BY_SWARM,) if grant.kinds else (BY_ENVIRONMENT,),
        requests=asked,
        kinds=grant.kinds,
        vram_mb=grant.vram.mib if grant.vram else 0,
        is_privileged=is_privileged(container.spec),
        ipc=joined_ipc(container.spec),
    )
    chooser = find_chooser(host, container.spec, grant, claim, located=located, limits=limits, claims_all=claims_all)
    return ContainerClaim(book, claim, chooser)


def claim_nodes(
    host: Host,
    container: StartingContainer,
    *,
    granted: Sequence[GpuLocation] = (),
    order: Sequence[int] = (),
    located: Sequence[GpuLocation] = (),
    kinds: tuple[str, ...] = (),
    asked: Sequence[str] = (),
    claims_all: bool = False,
) -> ContainerClaim | None:
    """Return the claim of a container on the GPUs that it was granted and those in its spec; None if there are none.

    `granted` are the GPUs of its request, of generic resource `kinds` if Swarm chose them; `order` has their numbers as
    the request names them. `located` are all GPUs of the host, if already located. `asked` are the words of the
    request: NumbersChanged if a number there meant another GPU before one was lost. With `claims_all`, a privileged
    container claims every GPU.
    """
    spec = container.spec
    privileged = is_privileged(spec)
    claims_all = claims_all and privileged
    gpus = located or (_locate_gpus(host) if claims_all or names_gpus(spec) else [])
    given = [gpu for gpu in (gpus if claims_all else gpus_in_spec(spec, gpus)) if gpu not in granted]
    if not (granted or given or privileged):
        return None
    ways = _ways_of_request(granted, kinds)
    if given:
        ways = (*ways, container.source or _way_of_nodes(spec))
    book = open_book(host, container)
    claim = Claim(
        holder=holder_of(container, book.processes),
        wanted=sorted((*granted, *given), key=lambda gpu: gpu.number),
        ways=ways,
        requests=asked,
        order=order,
        creators=container.creators,
        kinds=kinds,
        is_privileged=privileged,
        ipc=joined_ipc(spec),
        environment=(spec.get("process") or {}).get("env") or (),
    )
    return (ContainerClaim if claim.wanted else PrivilegedNote)(book, claim)


def open_book(host: Host, container: StartingContainer) -> Book:
    """Return the book for a container's reservation."""
    directory = container.run_directory
    return Book(State(host, directory) if directory else open_state(host, read_environment()), Processes())


def holder_of(container: StartingContainer, processes: Processes) -> Holder:
    """Return a starting container as the holder of a lease."""
    return Holder(
        container_id=container.container_id,
        root=container.root,
        bundle=container.bundle,
        # The runtime's own process becomes the low-level runtime that makes the container.
        creator=container.creators[0] if container.creators else processes.myself(),
        init=container.init,
        pid_file=container.pid_file,
        cgroup=shared_cgroup(container.spec, container.container_id),
    )


def _require_known_container(holder: Holder) -> None:
    """Raise ContainerRunning if the runtime does not know the container: it would start it, without GPUs."""
    from amd_gpu_tracker.errors import ContainerRunning
    from amd_gpu_tracker.leases.liveness import is_known_to_runtime

    if not is_known_to_runtime(holder.root, holder.container_id):
        raise ContainerRunning(
            f"the id {holder.container_id} already has GPUs, but the runtime has no container with that id yet",
            hint="run 'amd-ctk gpu-tracker status --wide' to see which container uses them",
        )


def _locate_gpus(host: Host) -> list[GpuLocation]:
    try:
        return locate_gpus(host, board_ids=False)
    except DriverUnavailable:  # The nodes belong to another vendor.
        return []


def _ways_of_request(granted: Sequence[GpuLocation], kinds: tuple[str, ...]) -> tuple[str, ...]:
    if not granted:
        return ()
    return (BY_SWARM,) if kinds else (BY_ENVIRONMENT,)


def _way_of_nodes(spec: dict[str, Any]) -> str:
    """Return how nodes came into a spec: by this toolkit's CDI spec, which adds a hook, or by `--device`."""
    listed = (spec.get("hooks") or {}).get("createRuntime")
    return BY_CDI if any(map(is_claim_hook, listed or ())) else BY_DEVICE
