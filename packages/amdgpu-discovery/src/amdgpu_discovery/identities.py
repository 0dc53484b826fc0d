"""The words that name a GPU: a number, a unique id in all its spellings, a PCI address; and names of groups."""

from __future__ import annotations

from amdgpu_discovery.gpu import HEXADECIMAL, parse_pci_address

CDI_PREFIX = "amd.com/gpu="
# Shorter words of hexadecimal digits are GPU numbers; upstream draws the line here too.
LONGEST_NUMBER = 8
OF_NUMBERS = "+-0123456789 "
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


def is_group_name(text: str) -> bool:
    """Return whether a group may be called so: CDI allows these letters in the name of a device."""
    letters = text.replace("-", "").replace("_", "").replace(".", "")
    return text.isascii() and text[:1].isalnum() and text[-1:].isalnum() and letters.isalnum()


def parse_number(text: str) -> int | None:
    """Return the number a text is, None if it is none."""
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdecimal()):
        return None
    # More digits than any host has GPUs; python refuses to read thousands of them.
    return int(digits.lstrip("0")[:20] or "0")


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
