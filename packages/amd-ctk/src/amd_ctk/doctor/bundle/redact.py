"""Replace unique ids and passwords in text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from amd_ctk.doctor.facts.gpus import KFD_NODES
from amdgpu_discovery.choices.selection import WHOLE, format_smi_uuid
from amdgpu_discovery.host import Host
from amdgpu_discovery.recording import Profile
from amdgpu_discovery.value import Value

# Part of a URL: tcp://user:password@host. A password may contain "@" and "/", so it ends at the last "@" of a word.
CREDENTIALS = re.compile(r"://[^\s\"']+@")
PCI_FUNCTIONS = "/sys/module/amdgpu/drivers/pci:amdgpu"
# Partitions of one GPU.
MOST_PARTITIONS = 16
KFD_ID = "unique_id "


class Serial(Value):
    """A unique id, its replacement, and the PCI device id that is part of amd-smi's UUID."""

    number: int
    replacement: int
    device_id: int = 0


class Redaction:
    """A function that replaces unique ids in text and removes passwords."""

    def __init__(self, serials: Iterable[Serial]) -> None:
        """Collect the ids in every form that programs print."""
        self._replacements = {form: other for serial in serials for form, other in _forms(serial)}
        known = "|".join(map(re.escape, sorted(self._replacements, key=len, reverse=True)))
        self._pattern = re.compile(known, re.IGNORECASE) if known else None

    def __call__(self, text: str) -> str:
        """Return text without unique ids and passwords."""
        text = without_credentials(text)
        return self._pattern.sub(self._replace, text) if self._pattern else text

    def _replace(self, match: re.Match[str]) -> str:
        # A CDI spec has an id in upper and in lower case, as two names.
        replacement = self._replacements[match[0].lower()]
        return replacement if match[0] == match[0].lower() else replacement.upper()


def without_credentials(text: str) -> str:
    """Return text without users and passwords in URLs."""
    return CREDENTIALS.sub("://***@", text)


def serials_of(real: Profile, redacted: Profile) -> list[Serial]:
    """Return the unique ids of a profile, with those of the same profile without serials as replacements."""
    found = []
    for mine, other in zip(real.gpus, redacted.gpus, strict=True):
        ids = [(mine.pci_unique_id, other.pci_unique_id), *zip(mine.kfd_unique_ids, other.kfd_unique_ids, strict=True)]
        device_id = mine.model.device_id
        found += [Serial(number=number, replacement=new or 0, device_id=device_id) for number, new in ids if number]
    return found


def read_serials(host: Host, first: int) -> list[Serial]:
    """Return the unique ids in sysfs, also of GPUs that no profile can have. Replacements count up from `first`."""
    found: dict[int, int] = {}
    for address in host.names(PCI_FUNCTIONS):
        number = host.read_attribute(f"{PCI_FUNCTIONS}/{address}/unique_id")
        found[_parse(number, 16)] = _parse(host.read_attribute(f"{PCI_FUNCTIONS}/{address}/device"), 16)
    for node in host.names(KFD_NODES):
        for line in host.read_attribute(f"{KFD_NODES}/{node}/properties").splitlines():
            if line.startswith(KFD_ID):
                found.setdefault(_parse(line.removeprefix(KFD_ID), 10), 0)
    pairs = enumerate((number, device_id) for number, device_id in found.items() if number)
    return [Serial(number=number, replacement=first + n, device_id=device_id) for n, (number, device_id) in pairs]


def _parse(text: str, base: int) -> int:
    try:
        return int(text, base)
    except ValueError:
        return 0


def _forms(serial: Serial) -> Iterator[tuple[str, str]]:
    number, replacement = serial.number, serial.replacement
    yield f"{number:016x}", f"{replacement:016x}"
    yield f"{number:x}", f"{replacement:x}"
    yield str(number), str(replacement)
    for partition in (WHOLE, *range(MOST_PARTITIONS)):
        uuid = format_smi_uuid(number, serial.device_id, partition)
        yield uuid, format_smi_uuid(replacement, serial.device_id, partition)
