"""Replace unique ids and passwords in text."""

from __future__ import annotations

import re

from amdgpu_discovery.identities import format_smi_uuid

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amdgpu_discovery.simulate import Profile

# Of a URL: tcp://user:password@host
CREDENTIALS = re.compile(r"://[^/\s@\"]+@")


class Redaction:
    """What is said instead of the unique ids of a host: the made-up ones of its profile."""

    def __init__(self, real: Profile, made_up: Profile) -> None:
        """Compare a profile with the same one without serials."""
        self._instead = dict(_pairs(real, made_up))
        known = "|".join(map(re.escape, sorted(self._instead, key=len, reverse=True)))
        self._pattern = re.compile(known, re.IGNORECASE) if known else None

    def __call__(self, text: str) -> str:
        """Return text without what it must not tell."""
        text = without_credentials(text)
        return self._pattern.sub(self._replace, text) if self._pattern else text

    def _replace(self, match: re.Match[str]) -> str:
        # A CDI spec has an id in both cases, as two names.
        instead = self._instead[match[0].lower()]
        return instead if match[0] == match[0].lower() else instead.upper()


def without_credentials(text: str) -> str:
    """Return text without users and passwords in URLs."""
    return CREDENTIALS.sub("://***@", text)


def _pairs(real: Profile, made_up: Profile) -> Iterator[tuple[str, str]]:
    for mine, other in zip(real.gpus, made_up.gpus, strict=True):
        ids = [(mine.pci_unique_id, other.pci_unique_id), *zip(mine.kfd_unique_ids, other.kfd_unique_ids, strict=True)]
        for number, instead in ids:
            if number and instead:
                yield f"{number:016x}", f"{instead:016x}"
                yield f"{number:x}", f"{instead:x}"
                yield str(number), str(instead)
                device_id = mine.model.device_id
                yield format_smi_uuid(number, device_id).lower(), format_smi_uuid(instead, device_id).lower()
