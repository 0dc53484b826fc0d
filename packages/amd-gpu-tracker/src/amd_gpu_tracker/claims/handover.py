"""Hand a reservation on to containers that its holder starts, so that they are not refused the holder's own GPUs.

An engine's client passes on only the container's own environment, so this contains a token. The token opens only the
GPUs of the reservation, while this or a container that got it is alive. The tracker stores only a digest.
"""

from __future__ import annotations

import os

from amd_gpu_tracker.book.lease import TOKEN, Lease
from amd_gpu_tracker.errors import StateError
from amd_gpu_tracker.leases.liveness import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

VISIBLE_DEVICES = "AMD_VISIBLE_DEVICES"
ROCR_FILTER = "ROCR_VISIBLE_DEVICES"
# It counts the GPUs that ROCr's filter leaves. Ray refuses to start if that filter is set and this one is not.
HIP_FILTER = "HIP_VISIBLE_DEVICES"
SECRET_BYTES = 16
# The name of a reservation, a dot and the secret. Longer values are ignored.
LONGEST_TOKEN = 512


class Reservation:
    """GPUs that a process holds under a name.

    Attributes:
        name: Name of the reservation.
        gpus: The GPUs, by number.
        environment: Variables by which a program sees only these GPUs, and a container gets them. The value of
            AMD_CTK_RESERVATION is a secret that lets containers use them, also several at once.
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
    """Return the variables that hand on some of the `located` GPUs, which are all GPUs of the host."""
    numbers = ",".join(str(gpu.number) for gpu in gpus)
    left = ",".join(str(position) for position in range(len(gpus)))
    variables = {VISIBLE_DEVICES: numbers, ROCR_FILTER: _rocr_filter(gpus, located), HIP_FILTER: left}
    # Without a GPU nothing is reserved, and a preview has no token.
    return {**variables, TOKEN: token} if gpus and token else variables


def new_token(name: str) -> str:
    """Return a token for the reservation of this name; it cannot be guessed."""
    return f"{name}.{os.urandom(SECRET_BYTES).hex()}"


def digest_of(token: str) -> str:
    """Return the digest of a token, which may be stored."""
    from amd_gpu_tracker.book.digest import sha256_of

    return sha256_of(token.encode("utf-8", "surrogateescape"))


def find_handed_on(state: State, token: str, processes: Processes) -> Lease | None:
    """Return the living reservation of a token, or a container that got it; None if there is none."""
    # An environment may contain anything, and an unprintable name may not be a valid path.
    if len(token) > LONGEST_TOKEN or not token.isprintable():
        return None
    lease, digest = find_reservation(state, token.rpartition(".")[0], processes), digest_of(token)
    is_meant = lease is not None and lease.token_digest != "" and lease.token_digest == digest
    return lease if is_meant else _find_given(state, digest, processes)


def find_handed_on_to_user(host: Host, token: str, processes: Processes) -> Lease | None:
    """Return the reservation of root's service for a token, if this user owns it; else None."""
    from amd_gpu_tracker.book.rootless import find_user
    from amd_gpu_tracker.book.state import State

    found = find_handed_on(State(host), token, processes)
    return found if found is not None and found.person == find_user() else None


def _find_given(state: State, digest: str, processes: Processes) -> Lease | None:
    """Return a living container of root that got the reservation of this token. Users could forge theirs."""
    if state.is_rootless:
        return None
    from amd_gpu_tracker.leases.lease_scan import preview_leases

    living = preview_leases(state, processes, state.lease_paths()).living
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
    """Return the GPUs by their ids; if these are ambiguous, by position in the order of KFD's nodes, as ROCm counts."""
    ids = [gpu.kfd_unique_id for gpu in located]
    if all(ids) and len(set(ids)) == len(ids):
        return ",".join(f"GPU-{gpu.kfd_unique_id:016x}" for gpu in gpus)
    nodes = sorted(gpu.kfd_node for gpu in located)
    return ",".join(str(nodes.index(gpu.kfd_node)) for gpu in gpus)
