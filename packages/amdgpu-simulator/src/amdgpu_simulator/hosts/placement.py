"""Decides what drivers decide while they probe: paths, minors and node numbers."""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Iterable, Iterator
from itertools import chain, count

from amdgpu_discovery.gpu import PciAddress, parse_pci_address
from amdgpu_discovery.recording.kernel import SHARED_MINORS
from amdgpu_discovery.recording.profile import ForeignDrm, Minors, OtherDrm, Profile, ProfileError, SimulatedGpu
from amdgpu_discovery.value import Value

# drivers/gpu/drm/drm_drv.c: 64 minors for each kind of node; since Linux 6.12 a range for both kinds follows.
CARD_MINORS = range(64)
RENDER_MINORS = range(128, 192)


# KFD counts nodes with 32 bits; no host has more than a hundred.
MOST_KFD_NODES = 4096
# Benchmarks build 512 GPUs. Each node may have a link to each other one: at most half a million files.
MOST_SIMULATED_NODES = 520


class PlacedDrm(Value):
    """A device with DRM nodes: its directory in sysfs, and its minors."""

    path: str
    card: int | None
    render: int | None
    connectors: tuple[str, ...] = ()


class PlacedNode(Value):
    """A KFD node of a GPU."""

    number: int
    gpu: SimulatedGpu
    partition: int
    partition_total: int
    gpu_id: int
    render: int


class PlacedGpu(Value):
    """A GPU with its devices (the function first, then those of its partitions) and its KFD nodes."""

    gpu: SimulatedGpu
    path: str
    devices: tuple[PlacedDrm, ...]
    nodes: tuple[PlacedNode, ...]


class PlacedHost(Value):
    """Everything that has a number on a host; `foreign` are devices of other drivers, `cpus` are KFD nodes."""

    gpus: tuple[PlacedGpu, ...]
    foreign: tuple[PlacedDrm, ...]
    cpus: tuple[int, ...] = ()

    @property
    def devices(self) -> list[PlacedDrm]:
        """Return every device with DRM nodes."""
        return [*self.foreign, *(device for gpu in self.gpus for device in gpu.devices)]

    @property
    def nodes(self) -> list[PlacedNode]:
        """Return the KFD nodes of GPUs in the order of their numbers."""
        return [node for gpu in self.gpus for node in gpu.nodes]


def place_host(profile: Profile) -> PlacedHost:
    """Give every device of a host its path and numbers; ProfileError if two would get the same."""
    _check_addresses(profile)
    minors = FreeMinors(profile)
    foreign = (
        *(_place_foreign(device, minors) for device in profile.foreign),
        *(_place_other(device) for device in profile.others),
    )
    if profile.driver is None:
        return PlacedHost(gpus=tuple(_place_gpu(gpu, (), ()) for gpu in profile.gpus), foreign=foreign)
    xcp_numbers = _free_xcp_numbers(profile)
    devices = [tuple(_place_devices(profile.driver.xcp_separator, gpu, minors, xcp_numbers)) for gpu in profile.gpus]
    renders = [_renders_in_kfd(gpu, of_gpu) for gpu, of_gpu in zip(profile.gpus, devices, strict=True)]
    cpus, numbers = _number_nodes(profile, sum(map(len, renders)))
    gpus: list[PlacedGpu] = []
    gpu_ids: set[int] = set()
    for gpu, of_gpu, in_kfd in zip(profile.gpus, devices, renders, strict=True):
        nodes = tuple(_place_nodes(gpu, in_kfd, numbers, gpu_ids))
        gpus.append(_place_gpu(gpu, of_gpu, nodes))
    return PlacedHost(gpus=tuple(gpus), foreign=foreign, cpus=cpus)


def read_address(text: str) -> PciAddress:
    """Parse the address in a profile; ProfileError if it is not one."""
    address = parse_pci_address(text)
    if address is None or str(address) != text:
        raise ProfileError(f"{text!r} is not a PCI address", hint="write it as lspci -D does: 0000:03:00.0")
    return address


def pci_path(text: str, upstream: tuple[str, ...]) -> str:
    """Return the path of a PCI function in sysfs."""
    return "/".join(("/sys/devices", *(upstream or _likely_upstream(read_address(text))), text))


def _check_addresses(profile: Profile) -> None:
    seen: set[str] = set()
    for device in profile.functions:
        read_address(device.pci_address)
        if device.pci_address in seen:
            raise ProfileError(f"two devices of the profile are at {device.pci_address}", hint="move one of them")
        seen.add(device.pci_address)


def _likely_upstream(address: PciAddress) -> tuple[str, ...]:
    """Return a root port in the same eighth of the domain's buses; a device on the root bus itself has none."""
    root_bus = address.bus & 0xE0
    root = f"pci{address.domain:04x}:{root_bus:02x}"
    port = PciAddress(domain=address.domain, bus=root_bus, device=1, function=1)
    return (root,) if address.bus == root_bus else (root, str(port))


def _place_foreign(device: ForeignDrm, free: FreeMinors) -> PlacedDrm:
    card, render = device.minors[0] if device.minors else free.take(has_render=device.has_render)
    path = pci_path(device.pci_address, device.upstream)
    return PlacedDrm(path=path, card=card, render=render, connectors=device.connectors)


def _place_other(device: OtherDrm) -> PlacedDrm:
    card, render = device.minors
    return PlacedDrm(path=f"/sys/devices/{device.path}", card=card, render=render, connectors=device.connectors)


def _place_gpu(gpu: SimulatedGpu, devices: tuple[PlacedDrm, ...], nodes: tuple[PlacedNode, ...]) -> PlacedGpu:
    return PlacedGpu(gpu=gpu, path=pci_path(gpu.pci_address, gpu.upstream), devices=devices, nodes=nodes)


def _place_devices(
    separator: str, gpu: SimulatedGpu, free: FreeMinors, xcp_numbers: Iterator[int]
) -> Iterator[PlacedDrm]:
    (card, render), *rest = gpu.minors or [free.take() for _ in range(1 + gpu.model.xcp_devices)]
    path = pci_path(gpu.pci_address, gpu.upstream)
    yield PlacedDrm(path=path, card=card, render=render, connectors=gpu.connectors)
    numbers = chain(gpu.xcp_numbers, xcp_numbers)
    for card, render in rest:
        # A driver that wants both nodes makes no device when cards run out. A profile may have devices without a card.
        if render is not None and (card is not None or gpu.minors):
            path = f"/sys/devices/platform/amdgpu_xcp{separator}{next(numbers)}"
            yield PlacedDrm(path=path, card=card, render=render)


def _renders_in_kfd(gpu: SimulatedGpu, devices: tuple[PlacedDrm, ...]) -> list[int]:
    """Return the render minors of a GPU's KFD nodes; KFD adds none for a partition without a render node."""
    return [device.render for device in devices[: gpu.wanted_partitions] if device.render is not None]


def _number_nodes(profile: Profile, gpu_nodes: int) -> tuple[tuple[int, ...], Iterator[int]]:
    """Return the numbers of KFD's nodes, those of CPUs and those of GPUs; ProfileError if two would get the same."""
    given = [cpu.node for cpu in profile.cpus if cpu.node is not None]
    total = len(profile.cpus) + gpu_nodes
    if total > MOST_SIMULATED_NODES:
        raise ProfileError(f"a host cannot have {total} KFD nodes", hint=f"describe at most {MOST_SIMULATED_NODES}")
    if len(set(given)) != len(given) or not all(0 <= number < MOST_KFD_NODES for number in given):
        raise ProfileError(f"processors cannot be nodes {given}", hint="leave `node` out")
    of_gpus = [number for gpu in profile.gpus for number in gpu.kfd_nodes]
    if len({*given, *of_gpus}) != len(given) + len(of_gpus) or not all(
        0 <= number < MOST_KFD_NODES for number in of_gpus
    ):
        raise ProfileError(f"GPUs cannot be KFD nodes {of_gpus}", hint="leave `kfd_nodes` out")
    free = iter(sorted(set(range(total + len(of_gpus))) - {*given, *of_gpus}))
    return tuple(next(free) if cpu.node is None else cpu.node for cpu in profile.cpus), free


def _place_nodes(
    gpu: SimulatedGpu, renders: list[int], numbers: Iterator[int], gpu_ids: set[int]
) -> Iterator[PlacedNode]:
    for partition, render in enumerate(renders):
        yield PlacedNode(
            number=gpu.kfd_nodes[partition] if partition < len(gpu.kfd_nodes) else next(numbers),
            gpu=gpu,
            partition=partition,
            partition_total=gpu.wanted_partitions,
            gpu_id=_gpu_id(gpu, partition, gpu_ids),
            render=render,
        )


def _gpu_id(gpu: SimulatedGpu, partition: int, taken: set[int]) -> int:
    """Return the given number or a stable one of 16 bits; like the kernel, skip numbers that are in use."""
    if partition < len(gpu.gpu_ids):
        return gpu.gpu_ids[partition]
    number = crc_hqx(f"{gpu.pci_address}/{partition}".encode(), 0) or 1
    while number in taken:
        number = number % 0xFFFF + 1
    taken.add(number)
    return number


class FreeMinors:
    """The free DRM minors, without those that a profile gives to its devices."""

    def __init__(self, profile: Profile) -> None:
        taken: set[int] = set()
        for minor in _given_minors(profile):
            if minor in taken:
                raise ProfileError(f"two nodes of the profile have DRM minor {minor}", hint="give each its own")
            taken.add(minor)
        shared = SHARED_MINORS if profile.driver and profile.driver.shared_minors else range(0)
        self._cards = _take_free(chain(CARD_MINORS, shared), taken)
        self._renders = _take_free(chain(RENDER_MINORS, shared), taken)

    def take(self, *, has_render: bool = True) -> Minors:
        """Return the next free card minor, and render minor if wanted; None if there are no more."""
        return next(self._cards, None), next(self._renders, None) if has_render else None


def _given_minors(profile: Profile) -> list[int]:
    pairs = [other.minors for other in profile.others]
    pairs += [pair for device in profile.functions for pair in device.minors]
    return [minor for pair in pairs for minor in pair if minor is not None]


def _free_xcp_numbers(profile: Profile) -> Iterator[int]:
    """Return the free values of N in amdgpu_xcp_N: one pool for all GPUs."""
    given = [number for gpu in profile.gpus for number in gpu.xcp_numbers]
    if len(given) != len(set(given)):
        raise ProfileError("two partition devices of the profile have the same number", hint="change xcp_numbers")
    return _take_free(count(), set(given))


def _take_free(numbers: Iterable[int], taken: set[int]) -> Iterator[int]:
    """Yield the numbers that are free when it is their turn, and take them."""
    for number in numbers:
        if number not in taken:
            taken.add(number)
            yield number
