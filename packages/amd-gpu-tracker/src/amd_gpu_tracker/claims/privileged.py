"""Privileged containers that ask for no GPU: they claim none, and `status` shows that they could reach all."""

from __future__ import annotations

from amd_gpu_tracker.claims.reservation import new_lease, read_own
from amd_gpu_tracker.records.lock import KernelLock
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.claims.claim import Claim
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State

# Not worth a longer wait.
TIMEOUT_SECONDS = 2.0


def note_privileged(state: State, claim: Claim, *, processes: Processes) -> None:
    """Write down a privileged container, if that can be done: nothing that is wrong with the tracker keeps it back.

    Where `amd` is the default runtime these are builds and system services that have nothing to do with GPUs.
    """
    if state.is_rootless:  # it is root in its user namespace only
        return
    try:
        state.prepare()
        with KernelLock(state.lock_path, TIMEOUT_SECONDS):
            if state.read_policy().enabled and read_own(state, claim, processes) is None:
                state.write_lease(new_lease(claim, processes))
    except ToolkitError:
        return
