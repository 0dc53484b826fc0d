"""Forget lost GPUs, and at a reset all reservations whose holders are not proved to be alive."""

from __future__ import annotations

from amd_gpu_tracker.book.drains import read_drains, write_drains
from amd_gpu_tracker.book.lease import Lease
from amd_gpu_tracker.book.matching import Match, match_gpus
from amd_gpu_tracker.errors import NotDone, StateError
from amd_gpu_tracker.leases.lease_scan import prune_leases
from amd_gpu_tracker.leases.liveness import judge
from amd_gpu_tracker.leases.status import title_with_name
from amdgpu_discovery.choices.selection import ALL, find_numbers
from amdgpu_discovery.choices.unknown_gpus import shown
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from amd_gpu_tracker.book.policy import Policy, TrackedGpu
    from amd_gpu_tracker.book.state import State
    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.gpu import GpuLocation


class Forgotten(Value):
    """The result of forgetting GPUs.

    Attributes:
        gpus: The number and PCI address of each lost GPU.
        said: A sentence about each container and job that had one of them.
        numbers: The earlier number of each GPU whose number changed, by its new one.
    """

    gpus: tuple[tuple[int, str], ...]
    said: tuple[str, ...]
    numbers: dict[int, int]


def forget_lost(book: Book, request: str) -> Forgotten:
    """Drop lost GPUs with their reservations and drains; the request has their former numbers, or is `all`.

    RequestError for something that is not a number, NotDone for a GPU that is not lost; then nothing is forgotten.
    """
    state = book.state
    with book.locked_by_root():
        policy = state.read_policy()
        gpus = locate_gpus(state.host)
        match = match_gpus(state.host, policy, gpus)
        numbers = _find_lost(match, request)
        dropped = [match.policy.gpus[number] for number in numbers]
        keys = {gpu.key for gpu in dropped}
        state.write_policy(_without(match.policy, keys, gpus))
        if state.has_drains:
            write_drains(state.host, [drain for drain in read_drains(state.host) if drain.key not in keys])
        leases = prune_leases(state, book.processes, state.lease_paths(locked=True)).living
        said = [_drop_gpus(state, lease, keys) for lease in leases if keys & set(lease.gpus)]
    return Forgotten(
        gpus=tuple((number, gpu.pci_address) for number, gpu in zip(numbers, dropped, strict=True)),
        said=tuple(said),
        numbers=_find_changed(match, gpus) if len(numbers) == len(match.lost) else {},
    )


def find_surviving(state: State, policy: Policy, processes: Processes) -> list[Lease]:
    """Return the leases that survive a reset, because a process proves that they are alive. Call this with the lock.

    `policy` is the new one. A reservation on a board whose state is unknown keeps the whole board.
    """
    try:
        before = {gpu.key: gpu for gpu in state.read_policy().gpus}
    except StateError:
        before = {}
    kept = [_on_boards(lease, before, policy.gpus) for lease in _read_proved(state, processes)]
    return sorted(kept, key=lambda lease: (lease.since, lease.container_id))


def describe_lease(lease: Lease, gpus: Iterable[GpuLocation]) -> tuple[str, str]:
    """Return the title of a lease for a sentence, and the GPUs that it names."""
    numbers = [gpu.number for gpu in gpus if gpu.key in lease.gpus]
    return title_with_name(lease), f"GPUs [{' '.join(map(str, numbers))}]" if numbers else "GPUs that are lost"


def _find_lost(match: Match, request: str) -> list[int]:
    """Return the numbers of the lost GPUs that a request means."""
    if request.strip().lower() == ALL:
        if not match.lost:
            raise NotDone("no GPU is lost")
        return list(match.lost)
    spans = find_numbers(request)
    lost = set(match.lost)
    hint = "'amd-ctk gpu-tracker status' shows which GPU is lost"
    if not spans:
        raise RequestError(f"{shown(request, quoted=True)} is not a GPU number", hint=hint)
    # Compare ranges without expanding them: a range can be of any length.
    if any(span[len(lost) :] or not set(span) <= lost for span in spans):
        raise NotDone(f"{shown(request)}: not all of these GPUs are lost", hint=hint)
    return sorted({number for span in spans for number in span})


def _find_changed(match: Match, gpus: Sequence[GpuLocation]) -> dict[int, int]:
    """Return, by its new number, the earlier number of each GPU whose number has changed."""
    number_by_key = {gpu.key: gpu.number for gpu in gpus}
    pairs = ((number_by_key.get(gpu.key, then), then) for then, gpu in enumerate(match.policy.gpus))
    return {number: then for number, then in pairs if number != then}


def _without(policy: Policy, keys: Collection[str], gpus: Sequence[GpuLocation]) -> Policy:
    """Return a policy without some GPUs. If no other GPU is lost, sort it by the numbers that are valid from now on."""
    left = [gpu for gpu in policy.gpus if gpu.key not in keys]
    if not any(gpu.lost_since for gpu in left):
        number = {gpu.key: gpu.number for gpu in gpus}
        left.sort(key=lambda gpu: number[gpu.key])
    return policy.replace(gpus=tuple(left))


def _drop_gpus(state: State, lease: Lease, keys: Collection[str]) -> str:
    """Remove GPUs from a lease, and return a sentence about it."""
    left = tuple(key for key in lease.gpus if key not in keys)
    if left:
        state.write_lease(lease.replace(gpus=left))
    else:
        state.remove_lease(state.lease_path(lease.key), "forgotten")
    return f"{title_with_name(lease)} had it, and still runs{': it keeps its other GPUs' if left else ''}"


def _read_proved(state: State, processes: Processes) -> list[Lease]:
    proved = []
    for path in state.lease_paths():
        try:
            lease = state.read_lease(path)
        except StateError:
            continue
        verdict = judge(lease, processes) if lease else None
        if lease and verdict and verdict.is_alive and verdict.is_proved:
            proved.append(lease.replace(init=lease.init or verdict.found_init))
    return proved


def _on_boards(lease: Lease, before: dict[str, TrackedGpu], gpus: Sequence[TrackedGpu]) -> Lease:
    """Return a lease for the current GPUs. If the partitions of a board have changed, it gets the whole board."""
    now = {gpu.key: gpu for gpu in gpus}
    keys: list[str] = []
    for key in lease.gpus:
        address = key.rpartition("/")[0]
        board = [gpu.key for gpu in gpus if gpu.pci_address == address]
        is_same = key in now and key in before and now[key].partition == before[key].partition
        keys += [key] if is_same or not board else board
    return lease.replace(gpus=tuple(dict.fromkeys(keys)))
