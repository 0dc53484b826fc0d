"""Read which device stands behind every DRM minor.

Source: drivers/gpu/drm/drm_drv.c, drivers/gpu/drm/amd/amdxcp/amdgpu_xcp_drv.c.
"""

from __future__ import annotations

from amdgpu_discovery.gpu import PciAddress, parse_pci_address
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

DRM_CLASS = "/sys/class/drm"
AMDGPU_DRIVER = "/sys/module/amdgpu/drivers"
AMDGPU_PCI_DEVICES = f"{AMDGPU_DRIVER}/pci:amdgpu"


class DrmDevice(Value):
    """A device with DRM minors: a PCI function, or the platform device of a partition (`amdgpu_xcp_3`).

    `path` is its directory in sysfs; older drivers write `amdgpu_xcp.3`. The number in that name says nothing: it is
    taken from one pool for all GPUs and used again after a hot unplug.
    """

    path: str
    pci_address: PciAddress | None
    render_minor: int | None
    card_minor: int | None


def read_drm_devices(host: Host) -> list[DrmDevice]:
    """Return every device with a card or render node, of any vendor, by path."""
    minors: dict[str, dict[str, int]] = {}
    for name in host.names(DRM_CLASS):
        kind = name.rstrip("0123456789")
        # Connectors (card1-DP-1) and control links stand in the same directory.
        if kind in ("card", "renderD") and kind != name:
            minors.setdefault(_device_path(host, name), {})[kind] = int(name[len(kind) :])
    return [_device(path, numbers) for path, numbers in sorted(minors.items()) if path]


def amdgpu_pci_addresses(host: Host) -> list[PciAddress]:
    """Return the PCI functions bound to amdgpu, in numeric order."""
    found = (parse_pci_address(name) for name in host.names(AMDGPU_PCI_DEVICES))
    return sorted((address for address in found if address), key=lambda address: address.sort_key)


def _device_path(host: Host, name: str) -> str:
    # /sys/class/drm/renderD128 -> ../../devices/pci0000:00/0000:03:00.0/drm/renderD128
    device, drm, _ = host.link(f"{DRM_CLASS}/{name}").rpartition("/drm/")
    return device.replace("../..", "/sys", 1) if drm else ""


def _device(path: str, minor_by_kind: dict[str, int]) -> DrmDevice:
    return DrmDevice(
        path=path,
        pci_address=parse_pci_address(path.rpartition("/")[2]),
        render_minor=minor_by_kind.get("renderD"),
        card_minor=minor_by_kind.get("card"),
    )
