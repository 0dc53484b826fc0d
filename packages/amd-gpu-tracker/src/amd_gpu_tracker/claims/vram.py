"""Memory of one GPU: Docker Swarm promises a share of the node's pool, and this chooses a GPU that has it."""

from __future__ import annotations

from amd_gpu_tracker.claims.decision import HINT, find_unreadable
from amd_gpu_tracker.claims.draining import without_drained
from amd_gpu_tracker.claims.parts import find_room, totals_of
from amd_gpu_tracker.errors import GpusRefused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.claims.claim import Book, Claim
    from amd_gpu_tracker.claims.decision import Refused
    from amd_gpu_tracker.leases.lease_scan import LeaseScan
    from amdgpu_discovery.gpu import Gpu


class MemoryChooser:
    """Chooses one of the host's `gpus` with the memory that a `claim` requests.

    It takes the GPU with the least to spare, so that free memory elsewhere stays in one piece. A GPU that a container
    uses as a whole has no free memory.
    """

    def __init__(self, claim: Claim, gpus: Sequence[Gpu]) -> None:
        self.gpus = gpus
        self._claim = claim

    def require_enabled(self, policy: Policy) -> None:
        """Raise GpusRefused if it is unknown which GPUs are in use."""
        if not policy.enabled:
            raise GpusRefused(
                f"{format_resource(self._claim)}: memory can be reserved only while the GPU Tracker is enabled",
                hint="run 'sudo amd-ctk swarm setup --vram', or 'sudo amd-ctk gpu-tracker enable'",
            )

    def prepare(self, book: Book) -> GpusRefused | None:
        """Return the refusal of a rootless container."""
        if not book.state.is_rootless:
            return None
        return GpusRefused(f"{format_resource(self._claim)}: only containers of root can reserve memory")

    def decide(self, state: State, policy: Policy, scan: LeaseScan) -> list[Gpu] | Refused:
        """Return the GPU that has enough memory and the least to spare, or the reason why there is none."""
        if error := find_unreadable(scan.unreadable):
            return error
        given_out = without_drained(state.host, self.gpus) if state.has_drains else self.gpus
        room = find_room(totals_of(given_out), scan, policy)
        return choose_gpu(self._claim, self.gpus, {gpu.number: room[gpu.key] for gpu in given_out})


def choose_gpu(claim: Claim, gpus: Sequence[Gpu], free_mb_by_gpu: Mapping[int, int]) -> list[Gpu] | GpusRefused:
    """Return the GPU with enough free memory and the least to spare, or the reason why none of the `gpus` has it."""
    largest = max(totals_of(gpus).values(), default=0)
    if claim.vram_mb > largest:
        return GpusRefused(
            f"{format_resource(claim)} is more than any GPU of this node has, the largest has {largest} MiB",
            hint="reserve whole GPUs by name instead",
        )
    fitting = [gpu for gpu in gpus if free_mb_by_gpu.get(gpu.number, -1) >= claim.vram_mb]
    if not fitting:
        return GpusRefused(f"{format_resource(claim)}: {_no_room(free_mb_by_gpu)}", hint=HINT)
    return [min(fitting, key=lambda gpu: (free_mb_by_gpu[gpu.number], gpu.number))]


def format_resource(claim: Claim) -> str:
    """Return the memory that a claim requests, in the form of the environment variable."""
    return f"DOCKER_RESOURCE_{claim.kinds[0]}={claim.vram_mb}"


def _no_room(free_mb_by_gpu: Mapping[int, int]) -> str:
    pool = sum(free_mb_by_gpu.values())
    most, number = max(((free, -number) for number, free in free_mb_by_gpu.items()), default=(0, 0))
    where = f": {pool} MiB free on this node, at most {most} MiB on one GPU (GPU {-number})"
    return f"no GPU has that much free memory{where if pool else ''}"
