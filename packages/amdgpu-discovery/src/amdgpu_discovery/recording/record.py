"""Records a machine as a profile, so that its GPUs can be simulated elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from amdgpu_discovery.driver.device_nodes import read_kfd_number
from amdgpu_discovery.driver.drm import AMDGPU_DRIVER, DrmDevice, FoundGpu, amdgpu_pci_addresses, read_drm_devices
from amdgpu_discovery.driver.kfd_topology import TOPOLOGY, parse_number, read_generation
from amdgpu_discovery.errors import GpusHidden
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import join_gpus
from amdgpu_discovery.recording.kernel import SHARED_MINORS, USUAL_GPU_PROPERTIES
from amdgpu_discovery.recording.profile import Access, CpuNode, Driver, ForeignDrm, OtherDrm, Profile, SimulatedGpu
from amdgpu_discovery.recording.record_gpu import (
    gather_gpus,
    read_connectors,
    read_id,
    read_numbers,
    record_gpu,
)
from amdgpu_discovery.tables.driver_versions import DRIVER_VERSION

# Nobody mistakes these for ids of real hardware.
FIRST_PLACEHOLDER = 0x5EED000000000001


def without_serials(profile: Profile) -> Profile:
    """Return the profile with its unique ids replaced; equal ids stay equal, and the result is always the same."""
    placeholder_by_id: dict[int, int] = {}

    def placeholder(number: int) -> int:
        # 0 means that there is no id.
        return placeholder_by_id.setdefault(number, FIRST_PLACEHOLDER + len(placeholder_by_id)) if number else 0

    gpus = [
        gpu.replace(
            pci_unique_id=None if gpu.pci_unique_id is None else placeholder(gpu.pci_unique_id),
            kfd_unique_ids=tuple(map(placeholder, gpu.kfd_unique_ids)),
            hive_id=placeholder(gpu.hive_id),
        )
        for gpu in profile.gpus
    ]
    cpus = tuple(cpu.replace(hive_id=placeholder(cpu.hive_id)) for cpu in profile.cpus)
    return profile.replace(gpus=tuple(gpus), cpus=cpus)


def record_profile(host: Host, name: str, *, with_serials: bool = False) -> Profile:
    """Return a profile of this host.

    Unique ids are replaced by made-up ones, which are equal if the real ones are, unless `with_serials`. Raises
    ToolkitError as `find_gpus` does, and GpusHidden if the reader's device cgroup hides GPUs.
    """
    is_loaded = host.stat(AMDGPU_DRIVER) is not None
    found: list[FoundGpu] = []
    if is_loaded:
        found, topology = join_gpus(host)
        if topology.hidden:
            raise GpusHidden(topology.hidden, len(found) + topology.hidden)
    devices = read_drm_devices(host)
    cpus = tuple(_record_cpus(host))
    gpus = _keep_numbers([record_gpu(host, gpu) for gpu in gather_gpus(host, found, devices)], cpus, found)
    profile = Profile(
        name=name,
        about=f"{len(found)} GPU{'' if len(found) == 1 else 's'} of a recorded host",
        gpus=gpus,
        driver=_record_driver(host, found, devices) if is_loaded else None,
        cpus=cpus,
        foreign=tuple(_record_foreign(host, devices)),
        others=tuple(_record_others(host, devices)),
        access=_record_access(host, devices),
    )
    return profile if with_serials else without_serials(profile)


def _keep_numbers(
    gpus: list[SimulatedGpu], cpus: tuple[CpuNode, ...], found: list[FoundGpu]
) -> tuple[SimulatedGpu, ...]:
    """Return GPUs with their numbers in KFD, if these are not the lowest free ones."""
    numbers = sorted(gpu.node.number for gpu in found)
    of_cpus = {position if cpu.node is None else cpu.node for position, cpu in enumerate(cpus)}
    if numbers == sorted({*range(len(cpus) + len(numbers))} - of_cpus):
        return tuple(gpus)
    numbers_by_address: dict[str, list[int]] = {}
    for gpu in sorted(found, key=lambda each: each.node.number):
        numbers_by_address.setdefault(str(gpu.pci_address), []).append(gpu.node.number)
    return tuple(gpu.replace(kfd_nodes=tuple(numbers_by_address.get(gpu.pci_address, ()))) for gpu in gpus)


def _record_driver(host: Host, found: list[FoundGpu], devices: list[DrmDevice]) -> Driver:
    kfd_number = read_kfd_number(host)
    known = {key for gpu in found for key in read_numbers(host, f"{gpu.node.path}/properties")}
    minors = [minor or 0 for device in devices for minor in (device.card_minor, device.render_minor)]
    return Driver(
        version=host.read_attribute(DRIVER_VERSION),
        kfd_major=kfd_number[0] if kfd_number else None,
        generation_id=parse_number(read_generation(host)),
        xcp_separator="." if any("/amdgpu_xcp." in device.path for device in devices) else "_",
        shared_minors=max(minors, default=0) in SHARED_MINORS,
        peer_to_peer=any(host.names(f"{gpu.node.path}/p2p_links") for gpu in found),
        absent_properties=tuple(key for key in USUAL_GPU_PROPERTIES if key not in known) if found else (),
    )


def _record_cpus(host: Host) -> Iterator[CpuNode]:
    paths = {int(name): f"{TOPOLOGY}/nodes/{name}" for name in host.names(f"{TOPOLOGY}/nodes") if name.isdecimal()}
    known = {number: read_numbers(host, f"{path}/properties") for number, path in sorted(paths.items())}
    # GPU nodes have vector units; a NUMA node with memory alone has no cores either.
    of_gpus = {number for number, each in known.items() if each.get("drm_render_minor") or each.get("simd_count")}
    cpus = [number for number in known if number not in of_gpus]
    for position, number in enumerate(cpus):
        properties, path = known[number], paths[number]
        yield CpuNode(
            cores=properties.get("cpu_cores_count", 0),
            memory_bytes=read_numbers(host, f"{path}/mem_banks/0/properties").get("size_in_bytes", 0),
            core_id_base=properties.get("cpu_core_id_base"),
            hive_id=properties.get("hive_id", 0),
            clock=properties.get("max_engine_clk_ccompute", 0),
            node=None if number == position else number,
        )


def _record_foreign(host: Host, devices: list[DrmDevice]) -> Iterator[ForeignDrm]:
    amdgpu = set(amdgpu_pci_addresses(host))
    for device in devices:
        if device.pci_address and device.pci_address not in amdgpu:
            yield ForeignDrm(
                pci_address=str(device.pci_address),
                upstream=tuple(device.path.split("/")[3:-1]),
                minors=((device.card_minor, device.render_minor),),
                connectors=read_connectors(host, device),
                driver=os.path.basename(host.link(f"{device.path}/driver")),
                vendor_id=read_id(host, f"{device.path}/vendor"),
                device_id=read_id(host, f"{device.path}/device"),
                has_render=device.render_minor is not None,
            )


def _record_others(host: Host, devices: list[DrmDevice]) -> Iterator[OtherDrm]:
    for device in devices:
        if not (device.pci_address or device.is_partition):
            yield OtherDrm(
                path=device.path.removeprefix("/sys/devices/"),
                minors=(device.card_minor, device.render_minor),
                connectors=read_connectors(host, device),
            )


def _record_access(host: Host, devices: list[DrmDevice]) -> Access:
    cards = [f"/dev/dri/card{device.card_minor}" for device in devices if device.card_minor is not None]
    renders = [f"/dev/dri/renderD{device.render_minor}" for device in devices if device.render_minor is not None]
    return Access(**_access_of(host, "card", cards), **_access_of(host, "render", renders))


def _access_of(host: Host, node_type: str, paths: list[str]) -> dict[str, int]:
    for path in paths:
        found = host.stat(path)
        if found is not None:
            return {f"{node_type}_mode": stat.S_IMODE(found.st_mode), f"{node_type}_group": found.st_gid}
    return {}
