"""Read everything in /sys/class/drm, which a container start does without.

Source: drivers/gpu/drm/drm_sysfs.c.
"""

from __future__ import annotations

from amdgpu_discovery.drm import AMDGPU_PCI_DEVICES, DRM_CLASS, device_path, make_device
from amdgpu_discovery.location import parse_pci_address

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.drm import DrmDevice
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.location import PciAddress


def read_drm_devices(host: Host) -> list[DrmDevice]:
    """Return every device with a card or render node, of any vendor, by path."""
    minors: dict[str, dict[str, int]] = {}
    for name in host.names(DRM_CLASS):
        kind = name.rstrip("0123456789")
        # Connectors (card1-DP-1) and control links stand in the same directory.
        if kind in ("card", "renderD") and kind != name:
            minors.setdefault(device_path(host, name), {})[kind] = int(name[len(kind) :])
    return [make_device(path, kind.get("renderD"), kind.get("card")) for path, kind in sorted(minors.items()) if path]


def amdgpu_pci_addresses(host: Host) -> list[PciAddress]:
    """Return the PCI functions bound to amdgpu, in numeric order."""
    found = (parse_pci_address(name) for name in host.names(AMDGPU_PCI_DEVICES))
    return sorted((address for address in found if address), key=lambda address: address.sort_key)
