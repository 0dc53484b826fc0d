"""Records one GPU: its place, its identity and its partitions."""

from __future__ import annotations

import errno
import os
import re
from typing import Any

from amdgpu_discovery.driver.compute_modes import MODES_BY_XCC_COUNT
from amdgpu_discovery.driver.drm import AMDGPU_PCI_DEVICES, DrmDevice, FoundGpu, amdgpu_pci_addresses, find_owners
from amdgpu_discovery.driver.kfd_topology import KfdNode, parse_number, read_gpu_id, read_vram_bytes
from amdgpu_discovery.gpu import PciAddress, parse_pci_address
from amdgpu_discovery.health.attributes import ASLEEP, RUNTIME_STATUS, list_attributes
from amdgpu_discovery.health.reading import FATAL_ERRORS, HEALTH_SECONDS
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import parse_hexadecimal
from amdgpu_discovery.recording.kernel import DERIVED_PROPERTIES, OPTIONAL_PROPERTIES, XGMI, XGMI_WEIGHT
from amdgpu_discovery.recording.profile import GpuModel, SimulatedGpu
from amdgpu_discovery.tables.models import PCI_DEVICES
from amdgpu_discovery.untrusted.bounded_files import read_in_child
from amdgpu_discovery.value import Value

# Attributes of the PCI function that are the same for all boards of a model.
ATTRIBUTES = (
    *("board_info", "mem_info_gtt_total", "mem_info_vis_vram_total", "mem_info_vram_vendor", "product_name"),
    "vbios_version",
)
XCC_COUNT_BY_COMPUTE_MODES = {modes: count for count, modes in MODES_BY_XCC_COUNT.items()}
# drivers/gpu/drm/amd/amdgpu/amdgpu_xcp.c: beside each function, one for each possible partition but the first.
XCP_DEVICES = 7
# Of a link of KFD. A link without one of these is not recorded.
LINK_FIELDS = frozenset(("node_to", "type", "weight"))
# Attributes of a GPU that show what it does now, beside those about its health.
ACTIVITY = (
    *("mem_info_gtt_used", "mem_busy_percent", "power_dpm_force_performance_level", "pp_dpm_sclk", "pp_dpm_mclk"),
    *("current_link_speed", "max_link_speed"),
)
SENSOR = re.compile(r"name|(?:fan|freq|in|power|pwm|temp)[0-9][a-z_]*")
AMD = "0x1002"
# Display controllers and accelerators.
GPU_CLASSES = ("0x03", "0x12")
# How a driver fails, in the words of profiles.
ERRORS = {number: f"[{errno.errorcode[number]}]" for number in FATAL_ERRORS}


def read_id(host: Host, path: str) -> int:
    """Return the number in an attribute that the kernel prints in hexadecimal; 0 if there is none."""
    return parse_hexadecimal(host.read_attribute(path))


def read_numbers(host: Host, path: str) -> dict[str, int]:
    """Return the numbers in one of KFD's files of properties, {} if it cannot be read."""
    lines = (line.partition(" ") for line in host.read_attribute(path).splitlines())
    numbers = ((key, parse_number(text)) for key, _, text in lines)
    return {key: number for key, number in numbers if number is not None}


def record_model(host: Host, path: str, nodes: list[KfdNode]) -> GpuModel:
    """Return the model of the GPU at a path of sysfs that has these KFD nodes."""
    attributes = {name: host.read_attribute(f"{path}/{name}") for name in ATTRIBUTES}
    device_id = read_id(host, f"{path}/device")
    return GpuModel(
        product=attributes["product_name"] or f"{device_id:04x}",
        vendor_id=read_id(host, f"{path}/vendor"),
        device_id=device_id,
        subsystem_vendor=read_id(host, f"{path}/subsystem_vendor"),
        subsystem_device=read_id(host, f"{path}/subsystem_device"),
        revision=read_id(host, f"{path}/revision"),
        pci_class=read_id(host, f"{path}/class"),
        vram_bytes=parse_number(host.read_attribute(f"{path}/mem_info_vram_total")),
        attributes={name: text for name, text in attributes.items() if text},
        **_record_node(host, path, nodes),
    )


def _record_node(host: Host, path: str, nodes: list[KfdNode]) -> dict[str, Any]:
    if not nodes:
        return {"gfx_target_version": 0, "simd_per_xcc": 0, "arrays_per_xcc": 0}
    node = nodes[0]
    properties = read_numbers(host, f"{node.path}/properties")
    xcc_count = properties.get("num_xcc") or 1
    modes = host.read_attribute(f"{path}/available_compute_partition")
    memory = read_numbers(host, f"{node.path}/mem_banks/0/properties")
    return {
        "gfx_target_version": properties.get("gfx_target_version", 0),
        "kfd_name": host.read_attribute(f"{node.path}/name"),
        "simd_per_xcc": properties.get("simd_count", 0) // xcc_count,
        "arrays_per_xcc": properties.get("array_count", 0) // xcc_count,
        "xcc_count": XCC_COUNT_BY_COMPUTE_MODES.get(modes, xcc_count * len(nodes)),
        "xcp_devices": XCP_DEVICES if modes else 0,
        "heap_type": memory.get("heap_type", 1),
        "memory_width": memory.get("width", 0),
        "memory_clock": memory.get("mem_clk_max", 0),
        "properties": _record_properties(properties, xcc_count),
        **_record_links(host, node),
    }


def _record_properties(properties: dict[str, int], xcc_count: int) -> dict[str, int]:
    """Return the properties that do not follow from the rest of a profile."""
    kept = {key: number for key, number in properties.items() if key not in DERIVED_PROPERTIES}
    kept["caches_count"] = properties.get("caches_count", 0) // xcc_count
    return {key: number for key, number in kept.items() if number or key in OPTIONAL_PROPERTIES}


def _record_links(host: Host, node: KfdNode) -> dict[str, Any]:
    """Return how this GPU reaches its processor and its peers, as far as its own links show it."""
    directory = f"{node.path}/io_links"
    read = [read_numbers(host, f"{directory}/{name}/properties") for name in host.names(directory)]
    # The kernel refuses to read a link to a GPU outside this process's device cgroup.
    links = [link for link in read if link.keys() >= LINK_FIELDS]
    if not links:
        return {}
    # Processors have the lowest numbers, and a GPU has a direct link to only one of them.
    to_cpu, *to_peers = sorted(links, key=lambda link: link["node_to"])
    xgmi = [link for link in to_peers if link["type"] == XGMI]
    hops = [link for link in xgmi if link["weight"] == XGMI_WEIGHT]
    return {
        "cpu_by_xgmi": to_cpu["type"] == XGMI,
        "pcie_bandwidth": _bandwidth(to_cpu),
        "xgmi_bandwidth": _bandwidth(hops[0]) if hops else (0, 0),
        "xgmi_sdma_engines": xgmi[0].get("recommended_sdma_engine_id_mask", 0) if xgmi else 0,
    }


def _bandwidth(link: dict[str, int]) -> tuple[int, int]:
    return (link["min_bandwidth"], link["max_bandwidth"])


class GatheredGpu(Value):
    """The parts of one PCI function: `devices` (its own first, then those of partitions) and KFD nodes."""

    pci_address: PciAddress
    path: str
    devices: tuple[DrmDevice, ...]
    nodes: tuple[FoundGpu, ...]


def gather_gpus(host: Host, found: list[FoundGpu], devices: list[DrmDevice]) -> list[GatheredGpu]:
    """Return the GPUs of a host in KFD's order, then those that KFD does not list."""
    owner_by_path = find_owners(host, devices, found)
    gpus = [_gather(host, address, found, devices, owner_by_path) for address in _gpu_addresses(host)]
    return sorted(gpus, key=lambda gpu: (not gpu.nodes, gpu.nodes[0].node.number if gpu.nodes else 0))


def record_gpu(host: Host, gpu: GatheredGpu) -> SimulatedGpu:
    """Return a GPU in the form of a profile."""
    numa_node = parse_number(host.read_attribute(f"{gpu.path}/numa_node"))
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
        # amdgpu_xcp_12, or amdgpu_xcp.12
        xcp_numbers=tuple(int(device.path.rpartition("amdgpu_xcp")[2][1:]) for device in gpu.devices[1:]),
        **_record_health(host, gpu),
    )
    is_as_usual = len(gpu.nodes) == len(recorded.minors[: recorded.wanted_partitions])
    return recorded if is_as_usual else recorded.replace(partitions=len(gpu.nodes))


def read_connectors(host: Host, device: DrmDevice) -> tuple[str, ...]:
    """Return the names of a card's connectors, without the prefix with the card's name."""
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
    has_unique_id = host.stat(f"{gpu.path}/unique_id") is not None
    pci_unique_id = read_id(host, f"{gpu.path}/unique_id") if has_unique_id else None
    kfd_unique_ids = tuple(node.read("unique_id") for node in nodes)
    return {
        "pci_unique_id": pci_unique_id,
        "kfd_unique_ids": () if set(kfd_unique_ids) == {pci_unique_id or 0} else kfd_unique_ids,
        "gpu_ids": tuple(read_gpu_id(host, node) for node in nodes),
        "hive_id": nodes[0].read("hive_id") if nodes else 0,
    }


def _record_modes(host: Host, path: str) -> dict[str, Any]:
    modes = {kind: host.read_attribute(f"{path}/current_{kind}") for kind in ("compute_partition", "memory_partition")}
    return modes | {f"available_{kind}": host.read_attribute(f"{path}/available_{kind}") for kind in modes}


def _record_health(host: Host, gpu: GatheredGpu) -> dict[str, Any]:
    """Return the health attributes of a GPU, or how its driver fails; attributes that were not reached are left out."""
    if host.read_attribute(f"{gpu.path}/{RUNTIME_STATUS}") == ASLEEP:
        # Reading the attributes would wake it.
        return {"health": {RUNTIME_STATUS: ASLEEP}}
    known = list_attributes(host, str(gpu.pci_address), with_errors=True)
    names = [name for name in known if ".." not in name and name != "mem_info_vram_total"]
    sensors = [name for name in _list_sensors(host, gpu.path) if name not in names]
    paths = {name: host.path(f"{gpu.path}/{name}") for name in (*names, *ACTIVITY, *sensors)}
    answers = read_in_child([list(paths.values())], seconds=HEALTH_SECONDS)
    found = {name: answers[path] for name, path in paths.items() if path in answers}
    texts = {name: ERRORS.get(answer.error, "") or answer.text for name, answer in found.items()}
    return {"health": {name: text for name, text in texts.items() if text}}


def _list_sensors(host: Host, path: str) -> list[str]:
    """Return the names of the sensors' files of the PCI function at a path of sysfs."""
    directories = [f"hwmon/{each}" for each in host.names(f"{path}/hwmon")[:1]]
    names = [f"{each}/{name}" for each in directories for name in sorted(host.names(f"{path}/{each}"))]
    return [name for name in names if SENSOR.fullmatch(os.path.basename(name))]
