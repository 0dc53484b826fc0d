"""Record one GPU: where it is, what it calls itself, how it is partitioned."""

from __future__ import annotations

import errno
import os

from amdgpu_discovery.bounded_files import read_in_child
from amdgpu_discovery.drm import AMDGPU_PCI_DEVICES, DrmDevice, amdgpu_pci_addresses, find_owners
from amdgpu_discovery.gpu import PciAddress, parse_pci_address
from amdgpu_discovery.health.attributes import ASLEEP, RUNTIME_STATUS, list_attributes
from amdgpu_discovery.health.reading import GIVEN_UP, MOST_SECONDS
from amdgpu_discovery.kfd_topology import read_gpu_id, read_vram_bytes
from amdgpu_discovery.simulate.profile import SimulatedGpu
from amdgpu_discovery.simulate.record_model import record_model
from amdgpu_discovery.simulate.sysfs_numbers import read_number
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.bounded_files import Answer
    from amdgpu_discovery.drm import FoundGpu
    from amdgpu_discovery.host import Host

PCI_DEVICES = "/sys/bus/pci/devices"
AMD = "0x1002"
# Display controllers and accelerators.
GPU_CLASSES = ("0x03", "0x12")
# How a driver fails, as profiles have it.
ERRORS = {number: f"[{errno.errorcode[number]}]" for number in GIVEN_UP}


class GatheredGpu(Value):
    """What belongs to one PCI function: `devices` (its own first, then those of partitions) and KFD nodes."""

    pci_address: PciAddress
    path: str
    devices: tuple[DrmDevice, ...]
    nodes: tuple[FoundGpu, ...]


def gather_gpus(host: Host, found: list[FoundGpu], devices: list[DrmDevice]) -> list[GatheredGpu]:
    """Return the GPUs of a host in the order in which KFD lists them, then those that it does not list."""
    owner_by_path = find_owners(host, devices, {gpu.device.path: gpu.pci_address for gpu in found})
    gpus = [_gather(host, address, found, devices, owner_by_path) for address in _gpu_addresses(host)]
    return sorted(gpus, key=lambda gpu: (not gpu.nodes, gpu.nodes[0].node.number if gpu.nodes else 0))


def record_gpu(host: Host, gpu: GatheredGpu) -> SimulatedGpu:
    """Return a GPU as a profile has it."""
    numa_node = read_number(host, f"{gpu.path}/numa_node")
    recorded = SimulatedGpu(
        model=record_model(host, gpu.path, [found.node for found in gpu.nodes]),
        pci_address=str(gpu.pci_address),
        upstream=tuple(gpu.path.split("/")[3:-1]),
        minors=tuple((device.card_minor, device.render_minor) for device in gpu.devices),
        connectors=read_connectors(host, gpu.devices[0]) if gpu.devices else (),
        numa_node=-1 if numa_node is None else numa_node,
        **_record_ids(host, gpu),
        **_record_modes(host, gpu.path),
        partition_bytes=tuple(read_vram_bytes(host, found.node) for found in gpu.nodes),
        xcp_numbers=tuple(_xcp_number(device) for device in gpu.devices[1:]),
        **_record_health(host, gpu),
    )
    is_as_usual = len(gpu.nodes) == len(recorded.minors[: recorded.wanted_partitions])
    return recorded if is_as_usual else recorded.replace(partitions=len(gpu.nodes))


def read_connectors(host: Host, device: DrmDevice) -> tuple[str, ...]:
    """Return the names of a card's connectors, without the card's own."""
    prefix = f"card{device.card_minor}-"
    names = host.names(f"{device.path}/drm/card{device.card_minor}")
    return tuple(sorted(name.removeprefix(prefix) for name in names if name.startswith(prefix)))


def _gpu_addresses(host: Host) -> list[PciAddress]:
    if host.stat(AMDGPU_PCI_DEVICES):
        return amdgpu_pci_addresses(host)
    addresses = (parse_pci_address(name) for name in sorted(host.names(PCI_DEVICES)) if _is_gpu(host, name))
    return [address for address in addresses if address]


def _is_gpu(host: Host, name: str) -> bool:
    path = f"{PCI_DEVICES}/{name}"
    return host.read_attribute(f"{path}/vendor") == AMD and host.read_attribute(f"{path}/class").startswith(GPU_CLASSES)


def _gather(
    host: Host,
    address: PciAddress,
    found: list[FoundGpu],
    devices: list[DrmDevice],
    owner_by_path: dict[str, PciAddress],
) -> GatheredGpu:
    nodes = tuple(gpu for gpu in found if gpu.pci_address == address)
    used = [gpu.device.path for gpu in nodes]
    mine = [device for device in devices if owner_by_path.get(device.path) == address]
    mine.sort(key=lambda device: (not device.pci_address, device.path not in used, device.render_minor or 0))
    link = host.link(f"{PCI_DEVICES}/{address}")
    return GatheredGpu(
        pci_address=address,
        path=os.path.normpath(f"{PCI_DEVICES}/{link}"),
        devices=tuple(mine),
        nodes=nodes,
    )


def _record_ids(host: Host, gpu: GatheredGpu) -> dict[str, Any]:
    nodes = [found.node for found in gpu.nodes]
    pci_unique_id = _read_pci_unique_id(host, gpu.path)
    kfd_unique_ids = tuple(node.read("unique_id") for node in nodes)
    return {
        "pci_unique_id": pci_unique_id,
        "kfd_unique_ids": () if set(kfd_unique_ids) == {pci_unique_id or 0} else kfd_unique_ids,
        "gpu_ids": tuple(read_gpu_id(host, node) for node in nodes),
        "hive_id": nodes[0].read("hive_id") if nodes else 0,
    }


def _read_pci_unique_id(host: Host, path: str) -> int | None:
    if host.stat(f"{path}/unique_id") is None:
        return None
    return read_number(host, f"{path}/unique_id", base=16) or 0


def _record_modes(host: Host, path: str) -> dict[str, Any]:
    when = (("compute_partition", "current_compute_partition"), ("memory_partition", "current_memory_partition"))
    modes = {field: host.read_attribute(f"{path}/{name}") for field, name in when}
    available = ("available_compute_partition", "available_memory_partition")
    return modes | {name: host.read_attribute(f"{path}/{name}") for name in available}


def _record_health(host: Host, gpu: GatheredGpu) -> dict[str, Any]:
    """Return what a GPU says of its health and use, or how the driver fails; what is not reached is not recorded."""
    if host.read_attribute(f"{gpu.path}/{RUNTIME_STATUS}") == ASLEEP:
        # To ask it would wake it.
        return {"health": {RUNTIME_STATUS: ASLEEP}}
    names = [name for name in list_attributes(host, str(gpu.pci_address), with_errors=True) if ".." not in name]
    paths = {name: host.path(f"{gpu.path}/{name}") for name in names if name != "mem_info_vram_total"}
    answers = read_in_child([list(paths.values())], seconds=MOST_SECONDS)
    texts = {name: _told(answers[path]) for name, path in paths.items() if path in answers}
    # Nothing is what a GPU uses on a simulated host anyway.
    return {"health": {name: text for name, text in texts.items() if text and text != "0"}}


def _told(answer: Answer) -> str:
    return ERRORS.get(answer.error, "") or answer.text


def _xcp_number(device: DrmDevice) -> int:
    # amdgpu_xcp_12, or amdgpu_xcp.12
    return int(device.path.rpartition("amdgpu_xcp")[2][1:])
