"""What names a GPU wherever it is put: its unique id or its PCI address; and what looks like that and is not.

Apart from `selection`, because most requests name numbers and every container start reads them.
"""

from __future__ import annotations

from amdgpu_discovery import unknown_gpus
from amdgpu_discovery.location import HEXADECIMAL, parse_pci_address
from amdgpu_discovery.selection import CDI_PREFIX, LONGEST_NUMBER, OF_NUMBERS, parse_number, resolve_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.location import GpuLocation, PciAddress
    from amdgpu_discovery.selection import Resolved
    from amdgpu_discovery.unknown_gpus import UnknownGpu


# What an item may name a GPU by wherever it is put, as settings and options call it.
BY_UUID = "uuid"
BY_PCI = "pci"
FORMS = {BY_UUID: "unique id", BY_PCI: "PCI address"}
# The lengths of the groups of `amd-smi list`'s UUID.
UUID_GROUPS = (8, 4, 4, 4, 12)
# What rocminfo prints for a GPU without a unique id.
NO_UNIQUE_ID = "gpu-xx"


def is_identity(item: str) -> bool:
    """Return whether an item names a GPU by unique id or PCI address, which no other kind of device shares."""
    return form_of(item) != ""


def form_of(item: str) -> str:
    """Return what an item names a GPU by: BY_UUID, BY_PCI, or "" for anything else."""
    name = item.strip().removeprefix(CDI_PREFIX)
    whole, is_partition, rank = name.rpartition(":p")
    name = whole if is_partition and rank.isdecimal() else name
    if parse_pci_address(name) is not None:
        return BY_PCI
    return BY_UUID if parse_unique_id(name) is not None else ""


def resolve_name(gpus: Sequence[GpuLocation], item: str) -> Resolved:
    """Return the numbers of the GPUs that an item names, which is neither `all` nor a short number nor a range."""
    name, is_partition, rank = item.rpartition(":p")
    if is_partition and rank.isdecimal():
        return _resolve_partition(gpus, name, rank)
    named = _find(gpus, item)
    if named is not None:
        return [gpu.number for gpu in named[0]], named[1]
    if item.lower() == NO_UNIQUE_ID:
        return [], unknown_gpus.no_unique_id(item)
    if "-" in item and not item.strip(OF_NUMBERS):
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
        return found, None if found else _no_gpu_at(address, item, gpus)
    unique_id = parse_unique_id(item)
    if unique_id is None:
        return None
    # 0 stands for "has none", on every APU alike.
    found = [gpu for gpu in gpus if unique_id != 0 and unique_id in (gpu.kfd_unique_id, gpu.pci_unique_id)]
    return found, None if found else unknown_gpus.no_gpu_with_id(item, gpus)


def _no_gpu_at(address: PciAddress, item: str, gpus: Sequence[GpuLocation]) -> UnknownGpu:
    """Say why there is no GPU at an address: rocm-smi and amd-smi print partition k as PCI function k."""
    slot = address.sort_key[:3]
    partitions = [
        gpu
        for gpu in gpus
        if gpu.partition_total > 1 and gpu.pci_address.sort_key[:3] == slot and gpu.partition_rank == address.function
    ]
    # Virtual functions of one device share the slot, so several may be meant.
    if len(partitions) == 1:
        return unknown_gpus.partition_as_function(address, item, partitions[0])
    return unknown_gpus.no_gpu_at(address, item, gpus)


def parse_unique_id(item: str) -> int | None:
    """Read a unique id in any of its spellings; None if it is none."""
    lower = item.lower()
    if lower[8:9] == "-":
        return _parse_smi_uuid(lower)
    for prefix in ("0x", "gpu-", ""):
        if lower.startswith(prefix) and (prefix or len(lower) > LONGEST_NUMBER):
            digits = lower[len(prefix) :]
            return int(digits, 16) if digits and not digits.strip("0123456789abcdef") else None
    return None


def format_smi_uuid(unique_id: int, device_id: int) -> str:
    """Return the UUID that `amd-smi list` prints for the GPU of an id, which is that of its PCI function."""
    digits = f"{unique_id:016x}"
    return f"{digits[:2]}ff{device_id:04x}-0000-1000-80{digits[2:4]}-{digits[4:]}"


def _parse_smi_uuid(text: str) -> int | None:
    # XXffDDDD-0000-1000-80YY-ZZZZZZZZZZZZ is the id XXYYZZZZZZZZZZZZ of a GPU with the PCI device id DDDD.
    groups = text.split("-")
    if tuple(map(len, groups)) != UUID_GROUPS or "".join(groups).strip(HEXADECIMAL):
        return None
    first, *version, clock, last = groups
    if first[2:4] != "ff" or version != ["0000", "1000"] or clock[:2] != "80":
        return None
    return int(first[:2] + clock[2:] + last, 16)
