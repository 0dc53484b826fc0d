"""The door to the tracker for a container that starts: whatever gives it GPUs, they are reserved here.

The runtime and the hook of CDI specs come with values: which container it is, its spec, which GPUs it was granted.
"""

from __future__ import annotations

from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.hook_entries import is_claim_hook, release_hook
from amd_gpu_tracker.claims.reservation import note_privileged, reserve, withdraw
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.lease import BY_CDI, BY_DEVICE, BY_ENVIRONMENT, BY_SWARM, Holder
from amd_gpu_tracker.records.lock import KernelLock
from amd_gpu_tracker.records.state import State, open_state
from amdgpu_discovery.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.errors import DriverUnavailable, RequestError
from amdgpu_discovery.gpu import MEBIBYTE
from amdgpu_discovery.host import read_environment
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.oci_spec import gpus_in_spec, is_privileged, names_gpus, shared_cgroup
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_gpu_tracker.records.lease import ProcessId
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu, GpuLocation
    from amdgpu_discovery.health.limits import HealthLimits
    from amdgpu_discovery.host import Host

# Noting a privileged container is not worth a longer wait.
NOTE_TIMEOUT_SECONDS = 2.0
# In bytes; less is what drivers keep (`states.use`).
LEAST_VRAM = 256 * MEBIBYTE


class StartingContainer(Value):
    """A container that is being made.

    Attributes:
        container_id: Id of the container.
        spec: Its OCI spec.
        bundle: Directory of its bundle.
        root: The runtime's `--root`; "" where it is not given.
        pid_file: The runtime's `--pid-file`; "" where it is not given.
        creators: The processes that make it; where there are none, this process does.
        init: Its first process; None where there is none yet.
    """

    container_id: str
    spec: dict[str, Any]
    bundle: str
    root: str = ""
    pid_file: str = ""
    creators: tuple[ProcessId, ...] = ()
    init: ProcessId | None = None


class ContainerClaim:
    """What a starting container reserves; decided by `reserve`, or already, where its GPUs had to be chosen.

    Attributes:
        vram_total_mb: How much memory the GPU has of which it reserves a part, in MiB; 0 where it reserves whole GPUs.
    """

    __slots__ = ("_claim", "_is_reserved", "_processes", "_state", "vram_total_mb")

    def __init__(
        self,
        state: State,
        claim: Claim,
        processes: Processes,
        *,
        is_reserved: bool | None = None,
        vram_total_mb: int = 0,
    ) -> None:
        """Hold a `claim` on the files of `state`.

        Made by `claim_container`, with `processes`, `is_reserved` and `vram_total_mb`.
        """
        self.vram_total_mb = vram_total_mb
        self._state = state
        self._claim = claim
        self._processes = processes
        self._is_reserved = is_reserved

    @property
    def gpus(self) -> tuple[GpuLocation, ...]:
        """Return the GPUs that are claimed, by number."""
        return tuple(self._claim.wanted)

    @property
    def poststop_hooks(self) -> list[dict[str, Any]]:
        """Return the hooks by which the tracker hears that the container has ended."""
        return [release_hook(self._state.host, self._state.run_directory if self._state.is_rootless else "")]

    def reserve(self) -> bool:
        """Reserve all GPUs or raise GpusRefused; False where the runtime has this container already and will say so."""
        if self._is_reserved is None:
            self._is_reserved = reserve(self._state, self._claim, processes=self._processes, lock=KernelLock)
        if not self._is_reserved:
            _require_known_container(self._claim.holder)
        return self._is_reserved

    def find_unreserved_use(self) -> list[str]:
        """Return a sentence about each of its GPUs that somebody uses without a reservation, as far as memory tells."""
        if not self._is_reserved or max(self._read_vram_used(), default=0) <= LEAST_VRAM:
            return []
        # Mostly nobody does.
        from amd_gpu_tracker.claims.unreserved import say_unreserved_use

        return say_unreserved_use(self._state, self._claim)

    def _read_vram_used(self) -> list[int]:
        # The driver counts it itself: no GPU is asked.
        paths = [f"{AMDGPU_PCI_DEVICES}/{gpu.pci_address}/mem_info_vram_used" for gpu in self._claim.wanted]
        return [int(text) for text in self._state.host.read_attributes(paths) if text.isdecimal()]

    def withdraw(self) -> None:
        """Release what was reserved, if anything was."""
        if self._is_reserved:
            withdraw(self._state, self._claim.holder)


class PrivilegedNote(ContainerClaim):
    """A privileged container that has no GPU: it is written down, claims nothing and is never refused."""

    __slots__ = ()

    @property
    def poststop_hooks(self) -> list[dict[str, Any]]:
        """Return no hooks: a container that has nothing to do with GPUs keeps its spec."""
        return []

    def reserve(self) -> bool:
        """Write the container down and let it be made."""
        note_privileged(self._state, self._claim, processes=self._processes, lock=_lock_for_note)
        return True


def claim_container(
    host: Host,
    container: StartingContainer,
    *,
    granted: Sequence[GpuLocation] = (),
    located: Sequence[GpuLocation] = (),
    kinds: tuple[str, ...] = (),
    vram_mb: int = 0,
    choice: Choice | None = None,
    candidates: Sequence[Gpu] = (),
    asked: Sequence[str] = (),
    limits: HealthLimits | None = None,
    privileged_claims_all: bool = False,
    source: str = "",
    run_directory: str = "",
) -> ContainerClaim | None:
    """Return the claim of a container that starts, None where it has no GPU.

    `granted` are the GPUs that its request was granted, of generic resource `kinds` where Swarm chose them; those that
    its spec opens are claimed beside them. `located` are all GPUs of the host, if they were located already. With
    `vram_mb` a GPU with that many MiB of free memory is chosen and reserved at once: GpusRefused where there is none.
    So are the GPUs of a `choice` among `candidates`, if there are any: these are the GPUs that fit, and `limits` say
    which of them are well.
    `asked` is in which words a user asked: NumbersChanged where a number there meant another GPU before one was lost.
    With `privileged_claims_all` a privileged container claims every GPU, not only those that it was given.
    `source` says how GPUs came into the spec, where the caller knows: BY_CDI, BY_DEVICE.
    `run_directory` is where a rootless run has its leases, "" for the usual one.
    """
    state = State(host, run_directory) if run_directory else open_state(host, read_environment())
    if vram_mb:
        return _claim_memory(state, container, kinds, vram_mb)
    spec = container.spec
    privileged = is_privileged(spec)
    claims_all = privileged and privileged_claims_all
    if choice and candidates:
        # Most requests name GPUs.
        from amd_gpu_tracker.claims.container_choice import claim_chosen, require_nothing_given

        require_nothing_given(choice, spec, located, claims_all=claims_all)
        processes = Processes()
        claim = Claim(
            holder=_holder(container, processes),
            wanted=(),
            ways=(BY_ENVIRONMENT,),
            asked=asked,
            is_privileged=privileged,
            limits=limits,
        )
        claim, is_reserved = claim_chosen(state, claim, choice, candidates, located, processes=processes)
        return ContainerClaim(state, claim, processes, is_reserved=is_reserved)
    gpus = located or (_locate_gpus(host) if claims_all or names_gpus(spec) else [])
    given = [gpu for gpu in (gpus if claims_all else gpus_in_spec(spec, gpus)) if gpu not in granted]
    if not (granted or given or privileged):
        return None
    processes = Processes()
    claim = Claim(
        holder=_holder(container, processes),
        wanted=sorted((*granted, *given), key=lambda gpu: gpu.number),
        ways=(*_ways_of_request(granted, kinds), *((source or _way_of_nodes(spec),) if given else ())),
        asked=asked,
        creators=container.creators,
        kinds=kinds,
        is_privileged=privileged,
        environment=(spec.get("process") or {}).get("env") or (),
    )
    kind = ContainerClaim if claim.wanted else PrivilegedNote
    return kind(state, claim, processes)


def require_no_devices(spec: dict[str, Any], gpus: Sequence[GpuLocation], asked: str) -> None:
    """Raise RequestError where a container that asks for memory was given GPUs as devices too."""
    if gpus_in_spec(spec, gpus) and not is_privileged(spec):
        raise RequestError(
            f"{asked} is memory of a GPU that is yet to be chosen, and the container was given GPUs as devices",
            hint="leave out one or the other",
        )


def _claim_memory(state: State, container: StartingContainer, kinds: tuple[str, ...], vram_mb: int) -> ContainerClaim:
    from amd_gpu_tracker.claims.vram import asked, reserve_vram
    from amdgpu_discovery.discover import find_gpus

    processes = Processes()
    claim = Claim(
        holder=_holder(container, processes),
        wanted=(),
        ways=(BY_SWARM,),
        kinds=kinds,
        vram_mb=vram_mb,
        is_privileged=is_privileged(container.spec),
    )
    gpus = find_gpus(state.host)
    require_no_devices(container.spec, gpus, asked(claim))
    vram_mb_by_gpu = {gpu.number: (gpu.vram_bytes or 0) // MEBIBYTE for gpu in gpus}
    gpu = reserve_vram(state, claim, gpus, vram_mb_by_gpu, processes=processes, lock=KernelLock)
    wanted = (gpu,) if gpu else ()
    return ContainerClaim(
        state,
        claim.replace(wanted=wanted),
        processes,
        is_reserved=gpu is not None,
        vram_total_mb=vram_mb_by_gpu[gpu.number] if gpu else 0,
    )


def _lock_for_note(path: str) -> KernelLock:
    return KernelLock(path, NOTE_TIMEOUT_SECONDS)


def _holder(container: StartingContainer, processes: Processes) -> Holder:
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
    """Raise ContainerRunning unless the runtime refuses to make a container because it has it: it would have no GPU."""
    from amd_gpu_tracker.errors import ContainerRunning
    from amd_gpu_tracker.life.liveness import is_known_to_runtime

    if not is_known_to_runtime(holder.root, holder.container_id):
        raise ContainerRunning(
            f"the id {holder.container_id} has GPUs already, and the runtime has no container of that id yet",
            hint="run 'amd-ctk gpu-tracker status --wide' to see which container uses them",
        )


def _locate_gpus(host: Host) -> list[GpuLocation]:
    try:
        return locate_gpus(host, board_ids=False)
    except DriverUnavailable:  # the nodes are those of another vendor
        return []


def _ways_of_request(granted: Sequence[GpuLocation], kinds: tuple[str, ...]) -> tuple[str, ...]:
    if not granted:
        return ()
    return (BY_SWARM,) if kinds else (BY_ENVIRONMENT,)


def _way_of_nodes(spec: dict[str, Any]) -> str:
    """Return how nodes came into a spec: with our CDI spec, which brings a hook along, or by `--device`."""
    listed = (spec.get("hooks") or {}).get("createRuntime")
    return BY_CDI if any(map(is_claim_hook, listed or ())) else BY_DEVICE
