"""The GPUs that a container start reserves with the GPU Tracker before it goes on."""

from __future__ import annotations

from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.given_gpus import gpus_given, may_give_gpus, shared_cgroup
from amd_gpu_tracker.claims.reservation import reserve, withdraw
from amd_gpu_tracker.hooks.spec_entries import is_claim_hook, release_hook
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.lease import BY_CDI, BY_DEVICE, BY_ENVIRONMENT, BY_SWARM, Holder
from amd_gpu_tracker.records.lock import KernelLock
from amd_gpu_tracker.records.rootless import open_state
from amdgpu_discovery.errors import DriverUnavailable
from amdgpu_discovery.host import read_environment
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.paths import absolute, directory_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_container_runtime.arguments import Call
    from amd_container_runtime.bundle import Bundle
    from amd_device_spec.grant import Grant
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host


class PendingClaim:
    """A claim that is decided when the edited bundle is safely on the disk."""

    __slots__ = ("_claim", "_is_reserved", "_processes", "_state")

    def __init__(self, state: State, claim: Claim, processes: Processes) -> None:
        self._state = state
        self._claim = claim
        self._processes = processes
        self._is_reserved = False

    @property
    def poststop_hooks(self) -> list[dict[str, Any]]:
        """Return the hooks by which the tracker hears that the container is gone."""
        return [release_hook(self._state.host, self._state.run_directory if self._state.is_rootless else "")]

    def reserve(self) -> bool:
        """Reserve all GPUs or raise GpusRefused; False where the runtime has this container already and will say so."""
        self._is_reserved = reserve(self._state, self._claim, processes=self._processes, lock=KernelLock)
        if not self._is_reserved:
            require_known_container(self._claim.holder)
        return self._is_reserved

    def withdraw(self) -> None:
        """Take back what was reserved, if anything was."""
        if self._is_reserved:
            withdraw(self._state, self._claim.holder)


def require_known_container(holder: Holder) -> None:
    """Raise ContainerRunning unless the runtime refuses to make a container because it has it: it would have no GPU."""
    from amd_gpu_tracker.errors import ContainerRunning
    from amd_gpu_tracker.life.liveness import is_known_to_runtime

    if not is_known_to_runtime(holder.root, holder.container_id):
        raise ContainerRunning(
            f"the id {holder.container_id} has GPUs already, and the runtime has no container of that id yet",
            hint="'amd-ctk gpu-tracker status --wide' shows who has them",
        )


def make_claim(
    call: Call, host: Host, bundle: Bundle, *, granted: Grant, gpus: Sequence[GpuLocation]
) -> PendingClaim | None:
    """Return the claim of the granted GPUs and of those that the engine has put into the spec, None for none.

    A privileged container has the nodes of every GPU without having asked for any, so these do not count.
    """
    spec = bundle.spec
    gpus = gpus or (_locate_gpus(host) if may_give_gpus(spec) else [])
    given = [gpu for gpu in gpus_given(spec, gpus) if gpu not in granted.gpus]
    if not (granted.gpus or given):
        return None
    processes = Processes()
    claim = Claim(
        holder=make_holder(call, bundle, processes),
        wanted=sorted((*granted.gpus, *given), key=lambda gpu: gpu.number),
        ways=(*_ways_of_request(granted), *((_way_of_nodes(spec),) if given else ())),
        kinds=granted.kinds,
    )
    return PendingClaim(open_state(host, read_environment()), claim, processes)


def make_holder(call: Call, bundle: Bundle, processes: Processes) -> Holder:
    """Return the container that this call makes, as the tracker knows containers."""
    return Holder(
        container_id=call.container_id,
        root=call.root,
        bundle=directory_of(bundle.path),
        # This process: it becomes the runtime that makes the container.
        creator=processes.myself(),
        pid_file=absolute(call.pid_file) if call.pid_file else "",
        cgroup=shared_cgroup(bundle.spec, call.container_id),
    )


def _locate_gpus(host: Host) -> list[GpuLocation]:
    try:
        return locate_gpus(host, board_ids=False)
    except DriverUnavailable:  # the nodes are those of another vendor
        return []


def _ways_of_request(granted: Grant) -> tuple[str, ...]:
    if not granted.gpus:
        return ()
    return (BY_SWARM,) if granted.kinds else (BY_ENVIRONMENT,)


def _way_of_nodes(spec: dict[str, Any]) -> str:
    """Return how nodes came into a spec: with our CDI spec, which brings a hook along, or by `--device`."""
    hooks = spec.get("hooks")
    listed = hooks.get("createRuntime") if isinstance(hooks, dict) else None
    return BY_CDI if isinstance(listed, list) and any(map(is_claim_hook, listed)) else BY_DEVICE
