"""Reserve for a container that starts what it needs: `AMD_VISIBLE_DEVICES=auto:2`."""

from __future__ import annotations

from amd_gpu_tracker.claims.choice import reserve_choice
from amd_gpu_tracker.records.lock import KernelLock
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.oci_spec import gpus_in_spec

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu, GpuLocation


def require_nothing_given(
    choice: Choice, spec: dict[str, Any], located: Sequence[GpuLocation], *, claims_all: bool
) -> None:
    """Raise RequestError where a container whose GPUs are yet to be chosen has others already."""
    if claims_all:
        raise RequestError(
            f"{choice.text}: a privileged container claims every GPU of this host",
            hint="ask for all, or start it without --privileged",
        )
    if gpus_in_spec(spec, located):
        raise RequestError(
            f"{choice.text}: its GPUs are yet to be chosen, and the container was given GPUs as devices",
            hint="leave out one or the other",
        )


def claim_chosen(
    state: State,
    claim: Claim,
    choice: Choice,
    candidates: Sequence[Gpu],
    located: Sequence[GpuLocation],
    *,
    processes: Processes,
) -> tuple[Claim, bool]:
    """Return the claim with the GPUs that were chosen and reserved; False where its container has GPUs already."""
    chosen = reserve_choice(state, claim, choice, candidates, processes=processes, lock=KernelLock)
    numbers = {gpu.number for gpu in chosen or ()}
    return claim.replace(wanted=[gpu for gpu in located if gpu.number in numbers]), chosen is not None
