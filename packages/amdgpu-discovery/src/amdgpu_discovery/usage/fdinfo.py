"""Read what /proc/PID/fdinfo says of an open DRM node.

Sources: Documentation/gpu/drm-usage-stats.rst; drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c. Linux 5.14 to 5.18 had words
of amdgpu alone (`vram mem:`) and no id of the client, for which the address space (`pasid`) stands.
"""

from __future__ import annotations

from amdgpu_discovery.usage.amounts import parse_bytes, parse_count
from amdgpu_discovery.value import Value

# `drm-memory-` is the older name of `drm-resident-`; kernels of the transition have both.
VRAM_KEYS = ("drm-resident-vram", "drm-memory-vram", "vram mem")
GTT_KEYS = ("drm-resident-gtt", "drm-memory-gtt", "gtt mem")
PCI_ADDRESS_KEYS = ("drm-pdev", "pdev")
CLIENT_KEYS = ("drm-client-id", "pasid")
ENGINE = "drm-engine-"
# How many engines of a kind there are, and no time.
CAPACITY = "drm-engine-capacity-"
DRIVER = "amdgpu"


class DrmClient(Value):
    """What one open of a DRM node uses.

    Attributes:
        pci_address: PCI address as the kernel prints it; "" where it does not.
        client_id: What tells it from other clients of the device; descriptors that share an open have the same.
        vram_bytes: Video memory.
        gtt_bytes: System memory that the GPU uses.
        engines: Names of engines, each with the nanoseconds for which it has worked for this client.
    """

    pci_address: str
    client_id: str
    vram_bytes: int
    gtt_bytes: int
    engines: tuple[tuple[str, int], ...] = ()


def parse_fdinfo(content: bytes) -> DrmClient | None:
    """Return what a client of amdgpu uses; None for other drivers, and for files that are no DRM nodes."""
    fields = _fields(content)
    client_id = _first(fields, CLIENT_KEYS)
    if not client_id or fields.get("drm-driver", DRIVER) != DRIVER:
        return None
    if _first(fields, VRAM_KEYS) == _first(fields, GTT_KEYS) == "":
        return None
    return DrmClient(
        pci_address=_first(fields, PCI_ADDRESS_KEYS),
        client_id=client_id,
        vram_bytes=parse_bytes(_first(fields, VRAM_KEYS)),
        gtt_bytes=parse_bytes(_first(fields, GTT_KEYS)),
        engines=tuple(_engines(fields)),
    )


def _fields(content: bytes) -> dict[str, str]:
    lines = content.decode("ascii", "replace").split("\n")
    return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}


def _first(fields: dict[str, str], keys: tuple[str, ...]) -> str:
    return next((fields[key] for key in keys if key in fields), "")


def _engines(fields: dict[str, str]) -> list[tuple[str, int]]:
    times = (
        (key.removeprefix(ENGINE), value.partition(" "))
        for key, value in fields.items()
        if key.startswith(ENGINE) and not key.startswith(CAPACITY)
    )
    return [(engine, parse_count(number)) for engine, (number, _, unit) in times if unit == "ns"]
