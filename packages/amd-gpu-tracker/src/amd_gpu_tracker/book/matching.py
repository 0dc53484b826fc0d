"""Compare a policy with the GPUs of the host: which tracked GPUs are lost, and which GPUs are new.

A board is identified by its PCI address. A board that is missing is lost with all its partitions. A board with another
partitioning, or another board in its place, is what the guide calls invalid.
"""

from __future__ import annotations

import time

from amd_gpu_tracker.book.policy import NO_ID, Policy, TrackedGpu
from amd_gpu_tracker.errors import GpusChanged
from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES
from amdgpu_discovery.numbering import hidden_numbers
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

    # The properties that a board, partitioned in one way, keeps at every address.
    Board = tuple[tuple[str, str, str, int], ...]


class Match(Value):
    """The result of the comparison.

    Attributes:
        policy: The policy, updated: lost GPUs have the time of the loss, and new ones, which are shared, come last.
        lost: The numbers by which lost GPUs were tracked.
        moved: The earlier key of each GPU whose PCI address has changed, by its new key.
    """

    policy: Policy
    lost: tuple[int, ...]
    moved: dict[str, str]


def match_gpus(host: Host, policy: Policy, gpus: Sequence[GpuLocation]) -> Match:
    """Compare a policy with the host's GPUs; GpusChanged if it is not for this host as it is now.

    `gpus` are those that this process may use. If others are hidden, only GPUs lost in the policy count as lost.
    """
    present = _by_address(read_tracked_gpus(host, gpus))
    moved = _find_moved(_by_address(policy.gpus), present)
    followed = [gpu.replace(key=moved.get(gpu.key, gpu.key)) for gpu in policy.gpus]
    is_whole = not hidden_numbers(gpus)
    _require_same_boards(_by_address(followed), present, is_whole=is_whole)
    tracked = [_at_last(gpu, present, is_whole=is_whole) for gpu in followed]
    addresses = {gpu.pci_address for gpu in tracked}
    new = [gpu for address, board in present.items() if address not in addresses for gpu in board]
    return Match(
        policy=policy.replace(gpus=(*tracked, *new)),
        lost=tuple(number for number, gpu in enumerate(tracked) if gpu.lost_since),
        moved={new_key: key for key, new_key in moved.items()},
    )


def read_tracked_gpus(host: Host, gpus: Sequence[GpuLocation]) -> tuple[TrackedGpu, ...]:
    """Return the GPUs of a host as the policy records them, all of them shared."""
    keys = [(gpu.key, str(gpu.pci_address)) for gpu in gpus]
    partitions = _read_partitions(host, dict.fromkeys(address for _, address in keys))
    return tuple(
        [
            TrackedGpu(
                key=key,
                # The PCI function's id first: a newer driver may change KFD's ids of partitions, but not the GPUs.
                unique_id=f"0x{gpu.pci_unique_id or gpu.kfd_unique_id:x}",
                partition=partitions[address],
                partition_total=gpu.partition_total,
            )
            for gpu, (key, address) in zip(gpus, keys, strict=True)
        ]
    )


def _require_same_boards(
    tracked: Mapping[str, list[TrackedGpu]], present: Mapping[str, list[TrackedGpu]], *, is_whole: bool
) -> None:
    """Raise GpusChanged if a board has changed, or if there are boards but none of the tracked ones."""
    changed = []
    for address in tracked.keys() & present.keys():
        then, now = set(map(_identity, tracked[address])), set(map(_identity, present[address]))
        if not now <= then or (is_whole and now != then):
            changed.append(address)
    if present and not tracked.keys() & present.keys():
        changed = list(tracked)
    elif not changed:
        return
    raise GpusChanged(gpu.key for address in changed for gpu in tracked[address])


def _at_last(gpu: TrackedGpu, present: Mapping[str, object], *, is_whole: bool) -> TrackedGpu:
    """Return a tracked GPU with the time of its loss, or without it if it is back."""
    is_there = gpu.pci_address in present
    if is_there or gpu.lost_since or not is_whole:
        return gpu.replace(lost_since=0) if is_there and gpu.lost_since else gpu
    return gpu.replace(lost_since=time.time())


def _find_moved(tracked: Mapping[str, list[TrackedGpu]], present: Mapping[str, list[TrackedGpu]]) -> dict[str, str]:
    """Return the new key of each GPU whose board, identified by its id, has another address; by its earlier key."""
    absent = _by_board(board for address, board in tracked.items() if address not in present)
    new = _by_board(board for address, board in present.items() if address not in tracked)
    return {
        old.key: gpu.key
        for board in absent.keys() & new.keys()
        for old, gpu in zip(absent[board], new[board], strict=True)
    }


def _by_board(boards: Iterable[list[TrackedGpu]]) -> dict[Board, list[TrackedGpu]]:
    """Return boards that have an id by their lasting properties, without boards that look alike."""
    found: dict[Board, list[TrackedGpu]] = {}
    twice = set()
    for board in boards:
        kept = tuple((gpu.key.rpartition("/")[2], *_identity(gpu)[1:]) for gpu in board)
        if kept in found:
            twice.add(kept)
        found[kept] = board
    return {kept: board for kept, board in found.items() if kept not in twice and board[0].unique_id != NO_ID}


def _by_address(gpus: Iterable[TrackedGpu]) -> dict[str, list[TrackedGpu]]:
    found: dict[str, list[TrackedGpu]] = {}
    for gpu in gpus:
        found.setdefault(gpu.pci_address, []).append(gpu)
    return found


def _identity(gpu: TrackedGpu) -> tuple[str, str, str, int]:
    """Return the lasting properties of one GPU, partitioned in one way."""
    return gpu.key, gpu.unique_id, gpu.partition, gpu.partition_total


def _read_partitions(host: Host, addresses: Iterable[str]) -> dict[str, str]:
    """Return the compute and memory partition modes by PCI address, "" for hardware without partitions."""
    addresses = list(addresses)
    modes = [
        host.read_attributes([f"{AMDGPU_PCI_DEVICES}/{address}/current_{each}_partition" for address in addresses])
        for each in ("compute", "memory")
    ]
    return {
        address: f"{compute}_{memory}".lower() if compute or memory else ""
        for address, compute, memory in zip(addresses, *modes, strict=True)
    }
