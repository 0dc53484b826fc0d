"""What names a GPU wherever it is put: its unique id or its PCI address; and what looks like that and is not.

Apart from `selection`, because most requests name numbers and every container start reads them.
"""

from __future__ import annotations

from amdgpu_discovery import unknown_gpus
from amdgpu_discovery.location import parse_pci_address
from amdgpu_discovery.selection import CDI_PREFIX, LONGEST_NUMBER, parse_number, resolve_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.location import GpuLocation
    from amdgpu_discovery.selection import Resolved
    from amdgpu_discovery.unknown_gpus import UnknownGpu


def is_identity(item: str) -> bool:
    """Return whether an item names a GPU by unique id or PCI address, which no other kind of device shares."""
    name = item.strip().removeprefix(CDI_PREFIX)
    whole, is_partition, rank = name.rpartition(":p")
    name = whole if is_partition and rank.isdecimal() else name
    return parse_pci_address(name) is not None or parse_unique_id(name) is not None


def resolve_name(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    """Return the numbers of the GPUs that an item names, which is neither `all` nor a short number nor a range."""
    name, is_partition, rank = item.rpartition(":p")
    if is_partition and rank.isdecimal():
        return _resolve_partition(gpus, name, rank)
    named = _find(gpus, item)
    if named is not None:
        return [gpu.number for gpu in named[0]], named[1]
    if "-" in item:
        return [], unknown_gpus.broken_range(item, "write the first and the last number, such as 0-2")
    number = parse_number(item)
    return ([], unknown_gpus.not_a_gpu(item, gpus)) if number is None else resolve_number(gpus, number)


def _resolve_partition(gpus: Sequence[GpuLocation], name: str, rank: str) -> Resolved:
    named = _find(gpus, name)
    if named is None:
        return [], unknown_gpus.names_no_partition(f"{name}:p{rank}")
    siblings, problem = named
    chosen = [gpu.number for gpu in siblings if gpu.partition_rank == parse_number(rank)]
    if not (chosen or problem):
        problem = unknown_gpus.no_such_partition(f"{name}:p{rank}", [gpu.partition_rank for gpu in siblings])
    return chosen, problem


def _find(gpus: Sequence[GpuLocation], item: str) -> tuple[list[GpuLocation], UnknownGpu | None] | None:
    """Return the GPUs that share a unique id or a PCI address; None if the item is neither."""
    address = parse_pci_address(item)
    if address:
        found = [gpu for gpu in gpus if gpu.pci_address == address]
        return found, None if found else unknown_gpus.no_gpu_at(str(address), item, gpus)
    unique_id = parse_unique_id(item)
    if unique_id is None:
        return None
    # 0 stands for "has none", on every APU alike.
    found = [gpu for gpu in gpus if unique_id != 0 and unique_id in (gpu.kfd_unique_id, gpu.pci_unique_id)]
    return found, None if found else unknown_gpus.no_gpu_with_id(item, gpus)


def parse_unique_id(item: str) -> int | None:
    """Read a unique id in any of its spellings; None if it is none."""
    lower = item.lower()
    for prefix in ("0x", "gpu-", ""):
        if lower.startswith(prefix) and (prefix or len(lower) > LONGEST_NUMBER):
            digits = lower[len(prefix) :]
            return int(digits, 16) if digits and not digits.strip("0123456789abcdef") else None
    return None
