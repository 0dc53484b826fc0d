"""Decide what the driver decides while it probes: paths, minors and node numbers."""

from __future__ import annotations

from binascii import crc_hqx

from amdgpu_discovery.gpu import PciAddress, parse_pci_address
from amdgpu_discovery.simulate.profile import ProfileError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from amdgpu_discovery.simulate.profile import ForeignDrm, Profile, SimulatedGpu

# drivers/gpu/drm/drm_drv.c: 64 minors for each kind of node, and since Linux 6.12 a range for both after them.
CARD_MINORS = range(64)
RENDER_MINORS = range(128, 192)
SHARED_MINORS = range(192, 1 << 20)


class DrmPlace(Value):
    """A device with DRM nodes: its directory in sysfs and the minors it got."""

    path: str
    card: int | None
    render: int | None
    connectors: tuple[str, ...] = ()


class NodePlace(Value):
    """A KFD node of a GPU."""

    number: int
    gpu: SimulatedGpu
    partition: int
    partition_total: int
    gpu_id: int
    render: int


class GpuPlace(Value):
    """A GPU with its function's devices (the function first, then its platform devices) and its KFD nodes."""

    gpu: SimulatedGpu
    path: str
    devices: tuple[DrmPlace, ...]
    nodes: tuple[NodePlace, ...]


class HostPlace(Value):
    """Everything that has a number on a host."""

    gpus: tuple[GpuPlace, ...]
    foreign: tuple[DrmPlace, ...]

    @property
    def devices(self) -> list[DrmPlace]:
        """Return every device with DRM nodes."""
        return [*self.foreign, *(device for gpu in self.gpus for device in gpu.devices)]

    @property
    def nodes(self) -> list[NodePlace]:
        """Return the KFD nodes of GPUs in the order of their numbers."""
        return [node for gpu in self.gpus for node in gpu.nodes]


def place_host(profile: Profile) -> HostPlace:
    """Give every device of a host its path and numbers; ProfileError where two would get the same."""
    minors = _Minors(profile)
    foreign = tuple(_place_foreign(device, minors) for device in profile.foreign)
    if profile.driver is None:
        return HostPlace(gpus=tuple(_place_unbound(gpu) for gpu in profile.gpus), foreign=foreign)
    xcp_numbers = _XcpNumbers(profile)
    devices = [tuple(_place_devices(profile, gpu, minors, xcp_numbers)) for gpu in profile.gpus]
    gpus: list[GpuPlace] = []
    ids: set[int] = set()
    for gpu, places in zip(profile.gpus, devices, strict=True):
        first = len(profile.cpus) + sum(len(earlier.nodes) for earlier in gpus)
        nodes = tuple(_place_nodes(gpu, places, first, ids))
        gpus.append(GpuPlace(gpu=gpu, path=pci_path(gpu.pci_address, gpu.upstream), devices=places, nodes=nodes))
    return HostPlace(gpus=tuple(gpus), foreign=foreign)


def read_address(text: str) -> PciAddress:
    """Read the address that a profile gives; ProfileError if it is none."""
    address = parse_pci_address(text)
    if address is None or str(address) != text:
        raise ProfileError(f"{text!r} is no PCI address", hint="write it as lspci -D does: 0000:03:00.0")
    return address


def pci_path(text: str, upstream: tuple[str, ...] = ()) -> str:
    """Return where a PCI function is in sysfs, by default below a root port in the same quarter of its domain."""
    address = read_address(text)
    root_bus = address.bus & 0xE0
    if not upstream and address.bus == root_bus:
        upstream = (f"pci{address.domain:04x}:{root_bus:02x}",)
    elif not upstream:
        port = PciAddress(domain=address.domain, bus=root_bus, device=1, function=1)
        upstream = (f"pci{address.domain:04x}:{root_bus:02x}", str(port))
    return "/".join(("/sys/devices", *upstream, text))


class _Minors:
    """The minors that are still free, as drm_minor_alloc hands them out."""

    def __init__(self, profile: Profile) -> None:
        self._shared = profile.driver is not None and profile.driver.shared_minors
        self._taken: set[int] = set()
        for gpu in profile.gpus:
            for card, render in gpu.minors:
                self._reserve(card)
                self._reserve(render)

    def take(self, *, render: bool) -> int | None:
        wanted = RENDER_MINORS if render else CARD_MINORS
        ranges = (wanted, SHARED_MINORS) if self._shared else (wanted,)
        for minor in (minor for numbers in ranges for minor in numbers):
            if minor not in self._taken:
                self._taken.add(minor)
                return minor
        return None

    def _reserve(self, minor: int | None) -> None:
        if minor in self._taken:
            raise ProfileError(f"two devices of the profile have DRM minor {minor}", hint="give each its own")
        if minor is not None:
            self._taken.add(minor)


class _XcpNumbers:
    """The N of amdgpu_xcp_N that are still free: one pool for all GPUs."""

    def __init__(self, profile: Profile) -> None:
        given = [number for gpu in profile.gpus for number in gpu.xcp_numbers]
        self._taken = set(given)
        if len(given) != len(self._taken):
            raise ProfileError("two platform devices of the profile have the same number", hint="change xcp_numbers")

    def numbers(self, gpu: SimulatedGpu) -> Iterator[int]:
        """Yield the numbers of one GPU's platform devices."""
        yield from gpu.xcp_numbers
        while True:
            number = next(number for number in range(1 << 20) if number not in self._taken)
            self._taken.add(number)
            yield number


def _place_foreign(device: ForeignDrm, minors: _Minors) -> DrmPlace:
    return DrmPlace(
        path=pci_path(device.pci_address),
        card=minors.take(render=False),
        render=minors.take(render=True) if device.has_render else None,
        connectors=device.connectors,
    )


def _place_unbound(gpu: SimulatedGpu) -> GpuPlace:
    return GpuPlace(gpu=gpu, path=pci_path(gpu.pci_address, gpu.upstream), devices=(), nodes=())


def _place_devices(
    profile: Profile, gpu: SimulatedGpu, minors: _Minors, xcp_numbers: _XcpNumbers
) -> Iterator[DrmPlace]:
    numbers = xcp_numbers.numbers(gpu)
    separator = profile.driver.xcp_separator if profile.driver else "_"
    for position in range(1 + gpu.kind.xcp_devices):
        if gpu.minors:
            card, render = gpu.minors[position] if position < len(gpu.minors) else (None, None)
        else:
            card, render = minors.take(render=False), minors.take(render=True)
        if position == 0:
            path = pci_path(gpu.pci_address, gpu.upstream)
            yield DrmPlace(path=path, card=card, render=render, connectors=gpu.connectors)
        elif render is not None and (card is not None or gpu.minors):
            path = f"/sys/devices/platform/amdgpu_xcp{separator}{next(numbers)}"
            yield DrmPlace(path=path, card=card, render=render)


def _place_nodes(gpu: SimulatedGpu, devices: tuple[DrmPlace, ...], first: int, ids: set[int]) -> Iterator[NodePlace]:
    # KFD adds no node for a partition without a render node.
    renders = [device.render for device in devices[: gpu.wanted_partitions] if device.render is not None]
    for partition, render in enumerate(renders):
        yield NodePlace(
            number=first + partition,
            gpu=gpu,
            partition=partition,
            partition_total=gpu.wanted_partitions,
            gpu_id=gpu.gpu_ids[partition] if partition < len(gpu.gpu_ids) else _hash_slot(gpu, partition, ids),
            render=render,
        )


def _hash_slot(gpu: SimulatedGpu, partition: int, taken: set[int]) -> int:
    """Return a stable number of 16 bits; like the kernel, count on from one that is taken."""
    number = crc_hqx(f"{gpu.pci_address}/{partition}".encode(), 0) or 1
    while number in taken:
        number = number % 0xFFFF + 1
    taken.add(number)
    return number
