"""Finds the device behind every DRM minor.

Source: drivers/gpu/drm/drm_drv.c, drivers/gpu/drm/drm_sysfs.c, drivers/gpu/drm/amd/amdxcp/amdgpu_xcp_drv.c.
"""

from __future__ import annotations

from amdgpu_discovery.gpu import PciAddress, parse_pci_address, parse_pci_addresses
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from amdgpu_discovery.driver.kfd_topology import KfdNode
    from amdgpu_discovery.host import Host

# include/drm/drm_ioctl.h; Documentation/admin-guide/devices.txt: "Direct Rendering Infrastructure (DRI)".
DRM_MAJOR = 226
DRM_CLASS = "/sys/class/drm"
AMDGPU_DRIVER = "/sys/module/amdgpu/drivers"
AMDGPU_PCI_DEVICES = f"{AMDGPU_DRIVER}/pci:amdgpu"

PLATFORM = "/sys/devices/platform"
# Platform devices of partitions: amdgpu_xcp_3, or amdgpu_xcp.3 with older drivers.
PARTITION_DEVICE = "amdgpu_xcp"


class DrmDevice(Value):
    """A device with DRM minors: a PCI function, or the platform device of a partition (`amdgpu_xcp_3`).

    `path` is its directory in sysfs; older drivers write `amdgpu_xcp.3`. The number in that name has no meaning: it
    comes from one pool for all GPUs and is reused after a hot unplug.
    """

    path: str
    pci_address: PciAddress | None
    render_minor: int | None
    card_minor: int | None

    @property
    def is_partition(self) -> bool:
        """Return whether this is the platform device of a partition."""
        return self.path.rpartition("/")[2].startswith(PARTITION_DEVICE)


class FoundGpu(Value):
    """A KFD node with its DRM device and, if known, the PCI function (`parent`) that it belongs to."""

    node: KfdNode
    device: DrmDevice
    parent: DrmDevice | None
    pci_address: PciAddress
    # The order of GPUs: the parent's address, then the render minor, both as numbers.
    sort_key: tuple[tuple[int, int, int, int], int]


def find_drm_devices(host: Host, render_minors: Iterable[int]) -> list[DrmDevice]:
    """Return the devices with these render nodes. A host has many more: each MI300X has seven for partitions."""
    minors = list(render_minors)
    paths = device_paths(host, [f"renderD{minor}" for minor in minors])
    minor_by_path = {path: minor for path, minor in zip(paths, minors, strict=True) if path}
    cards = _find_cards(host, minor_by_path)
    addresses = parse_pci_addresses([path.rpartition("/")[2] for path in minor_by_path])
    return [
        DrmDevice(path=path, pci_address=address, render_minor=minor, card_minor=cards[path])
        for (path, minor), address in zip(minor_by_path.items(), addresses, strict=True)
    ]


def _find_cards(host: Host, minor_by_path: Mapping[str, int]) -> dict[str, int | None]:
    """Return the minors of the devices' cards by path, None for a device without a card.

    Devices of one driver mostly get both minors in turn, but nothing guarantees that. So the card of one device
    predicts the cards of the others, and a link that confirms a prediction saves listing a directory.
    """
    cards: dict[str, int | None] = {}
    for path, minor in minor_by_path.items():
        if path in cards:
            continue
        card = cards[path] = find_card(host, path)
        if card is not None:
            ahead = {f"card{card + other - minor}": each for each, other in minor_by_path.items() if each not in cards}
            found = zip(ahead.items(), device_paths(host, ahead), strict=True)
            cards.update({each: int(name.removeprefix("card")) for (name, each), linked in found if linked == each})
    return cards


def device_paths(host: Host, names: Iterable[str]) -> list[str]:
    """Return the sysfs directory of the device behind each card or render node, "" if there is none."""
    # /sys/class/drm/renderD128 -> ../../devices/pci0000:00/0000:03:00.0/drm/renderD128
    links = [host.link(f"{DRM_CLASS}/{name}") for name in names]
    return [link.rpartition("/drm/")[0].replace("../..", "/sys", 1) for link in links]


def find_card(host: Host, path: str) -> int | None:
    """Return the minor of a device's card, None if it has none."""
    names = (name.removeprefix("card") for name in host.names(f"{path}/drm") if name.startswith("card"))
    return next((int(number) for number in names if number.isdecimal()), None)


def make_device(path: str, render_minor: int | None, card_minor: int | None) -> DrmDevice:
    """Return the device in a directory, which is named after the device's PCI function, if it has one."""
    address = parse_pci_address(path.rpartition("/")[2])
    return DrmDevice(path=path, pci_address=address, render_minor=render_minor, card_minor=card_minor)


def read_drm_devices(host: Host) -> list[DrmDevice]:
    """Return every device with a card or render node, of any vendor, by path."""
    prefixes = {name: name.rstrip("0123456789") for name in host.names(DRM_CLASS)}
    # The directory also has connectors (card1-DP-1) and control links.
    names = [name for name, prefix in prefixes.items() if prefix in ("card", "renderD") and prefix != name]
    minors: dict[str, dict[str, int]] = {}
    for name, path in zip(names, device_paths(host, names), strict=True):
        minors.setdefault(path, {})[prefixes[name]] = int(name.removeprefix(prefixes[name]))
    return [
        make_device(path, minor_by_prefix.get("renderD"), minor_by_prefix.get("card"))
        for path, minor_by_prefix in sorted(minors.items())
        if path
    ]


def amdgpu_pci_addresses(host: Host) -> list[PciAddress]:
    """Return the PCI functions bound to amdgpu, in numeric order."""
    found = (parse_pci_address(name) for name in host.names(AMDGPU_PCI_DEVICES))
    return sorted((address for address in found if address), key=lambda address: address.sort_key)


def find_unlinked_devices(host: Host, render_minors: Collection[int]) -> list[DrmDevice]:
    """Return the devices of the amdgpu driver with these render nodes, by searching every device.

    For render nodes without a link in /sys/class/drm, as in a sandbox that shows only a part of it.
    """
    functions = [f"{AMDGPU_PCI_DEVICES}/{address}" for address in amdgpu_pci_addresses(host)]
    partitions = [f"{PLATFORM}/{name}" for name in host.names(PLATFORM) if name.startswith(PARTITION_DEVICE)]
    nodes = [(path, name) for path in (*functions, *partitions) for name in host.names(f"{path}/drm")]
    minor_by_name = {f"renderD{minor}": minor for minor in render_minors}
    return [
        make_device(path, minor_by_name[name], find_card(host, path)) for path, name in nodes if name in minor_by_name
    ]


def find_owners(host: Host, devices: Iterable[DrmDevice], found: Iterable[FoundGpu]) -> dict[str, PciAddress]:
    """Return the PCI function that each DRM device of the amdgpu driver belongs to, by the device's path.

    `found` are the GPUs and partitions in use, which KFD knows. Any other partition belongs to the function whose minor
    comes before its own, because a function gets the minors of its partitions together with its own.
    """
    functions = set(amdgpu_pci_addresses(host))
    address_by_path = {gpu.device.path: gpu.pci_address for gpu in found}
    owners: dict[str, PciAddress] = {}
    owner = None
    for device in sorted(devices, key=lambda device: device.render_minor or 0):
        if not (device.is_partition or device.pci_address in functions):
            continue
        owner = device.pci_address or address_by_path.get(device.path, owner)
        if owner is not None:
            owners[device.path] = owner
    return owners
