"""Hand a reservation on: to containers that its holder starts, which must not be refused the holder's own GPUs.

An engine's client passes nothing on but the container's own environment, so a token stands there. It opens what the
reservation holds, and nothing else, while that or a container that was given it lives: the tracker keeps a digest only.
"""

from __future__ import annotations

import os

from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.life.liveness import judge
from amd_gpu_tracker.records.lease import TOKEN, Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

VISIBLE_DEVICES = "AMD_VISIBLE_DEVICES"
ROCR_FILTER = "ROCR_VISIBLE_DEVICES"
# It counts what that of ROCr leaves. Ray refuses to start where that of ROCr is set and this one is not.
HIP_FILTER = "HIP_VISIBLE_DEVICES"
SECRET_BYTES = 16
# The name of a reservation, a dot and the secret; what is longer is not looked at.
LONGEST_TOKEN = 512


class Reservation:
    """GPUs that a process holds under a name.

    Attributes:
        name: Name of the reservation.
        gpus: The GPUs, by number.
        environment: Variables by which a program sees these GPUs only, and a container is given them. The value of
            AMD_CTK_RESERVATION is a secret that lets containers have them, several at once, too.
        VARIABLE: Name of the variable with that secret.
    """

    VARIABLE = TOKEN

    def __init__(
        self,
        name: str,
        gpus: Sequence[GpuLocation],
        environment: dict[str, str],
        *,
        release: Callable[[str], object],
    ) -> None:
        """Hold `gpus` under a `name`, which `release` gives back; `environment` hands them on."""
        self.name = name
        self.gpus = tuple(gpus)
        self.environment = environment
        self._release = release

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of the GPUs."""
        return tuple(gpu.number for gpu in self.gpus)

    def release(self) -> None:
        """Give the GPUs back."""
        self._release(self.name)


def build_environment(gpus: Sequence[GpuLocation], located: Sequence[GpuLocation], token: str) -> dict[str, str]:
    """Return the variables that hand on some of the `located` GPUs, which are all of the host."""
    numbers = ",".join(str(gpu.number) for gpu in gpus)
    left = ",".join(str(position) for position in range(len(gpus)))
    variables = {VISIBLE_DEVICES: numbers, ROCR_FILTER: _rocr_filter(gpus, located), HIP_FILTER: left}
    # Without a GPU nothing is reserved, and a preview has no token.
    return {**variables, TOKEN: token} if gpus and token else variables


def new_token(name: str) -> str:
    """Return a token for the reservation of this name, which cannot be guessed."""
    return f"{name}.{os.urandom(SECRET_BYTES).hex()}"


def digest_of(token: str) -> str:
    """Return what may be written down of a token."""
    from hashlib import sha256

    return sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def find_handed_on(state: State, token: str, processes: Processes) -> Lease | None:
    """Return the living reservation that a token is of, or a container that was given it; None if there is none."""
    # What is not printable may be no path: an environment may hold anything.
    if len(token) > LONGEST_TOKEN or not token.isprintable():
        return None
    lease, digest = find_reservation(state, token.rpartition(".")[0], processes), digest_of(token)
    is_meant = lease is not None and lease.token_digest != "" and lease.token_digest == digest
    return lease if is_meant else _find_given(state, digest, processes)


def find_handed_on_to_user(host: Host, token: str, processes: Processes) -> Lease | None:
    """Return the reservation of root's service that a token is of, for its owner; None for other users."""
    from amd_gpu_tracker.records.rootless import find_user
    from amd_gpu_tracker.records.state import State

    found = find_handed_on(State(host), token, processes)
    return found if found is not None and found.person == find_user() else None


def _find_given(state: State, digest: str, processes: Processes) -> Lease | None:
    """Return a living container that was given the reservation of this token; users could have written theirs."""
    if state.is_rootless:
        return None
    from amd_gpu_tracker.life.lease_scan import foresee_leases

    living = foresee_leases(state, processes, state.lease_paths()).living
    given = next((each for each in living if each.reservation_digest == digest), None)
    return given.replace(token_digest=digest) if given else None


def find_reservation(state: State, name: str, processes: Processes) -> Lease | None:
    """Return the living reservation of this name, None if there is none."""
    try:
        lease = state.read_lease(state.lease_path(("", name)))
    except StateError:
        return None
    return lease if lease is not None and judge(lease, processes).is_alive else None


def _rocr_filter(gpus: Sequence[GpuLocation], located: Sequence[GpuLocation]) -> str:
    """Return the GPUs by their ids; where these do not tell them apart, as ROCm counts: in the order of KFD's nodes."""
    ids = [gpu.kfd_unique_id for gpu in located]
    if all(ids) and len(set(ids)) == len(ids):
        return ",".join(f"GPU-{gpu.kfd_unique_id:016x}" for gpu in gpus)
    nodes = sorted(gpu.kfd_node for gpu in located)
    return ",".join(str(nodes.index(gpu.kfd_node)) for gpu in gpus)
