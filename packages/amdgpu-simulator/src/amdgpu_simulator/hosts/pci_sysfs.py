"""Builds PCI functions, their drivers, platform devices of partitions, and DRM minors, as in sysfs and udev."""

from __future__ import annotations

import struct

from amdgpu_discovery.driver.compute_modes import MODES_BY_XCC_COUNT
from amdgpu_discovery.driver.drm import DRM_CLASS, DRM_MAJOR
from amdgpu_discovery.gpu import parse_pci_address
from amdgpu_discovery.recording.profile import Access, ForeignDrm, Profile, SimulatedGpu
from amdgpu_simulator.hosts.placement import PlacedDrm, PlacedGpu, PlacedHost, pci_path
from amdgpu_simulator.hosts.tree import Tree

AMDGPU = "/sys/bus/pci/drivers/amdgpu"
# From linux/pci_regs.h: the header's size, where it has the subsystem, and the command of a function that is in use.
HEADER, SUBSYSTEM, DECODES = 64, 0x2C, 0x0006
# From pci-sysfs.c: start, end and flags of each region; no region is mapped.
NO_RESOURCE, RESOURCES = b"0x0000000000000000 0x0000000000000000 0x0000000000000000\n", 13
# rocm-smi recognises a GPU by it.
FIRMWARE = "113-SIMULATED-001"


def add_pci(tree: Tree, profile: Profile, placed: PlacedHost) -> None:
    """Add every PCI function, and the amdgpu module if it is loaded."""
    for foreign in profile.foreign:
        _add_foreign(tree, foreign)
    for gpu in placed.gpus:
        _add_function(tree, gpu.path, _identity(gpu.gpu), driver="amdgpu" if profile.driver else "")
    if profile.driver is not None:
        _add_module(tree, profile.driver.version)
        for gpu in placed.gpus:
            _bind(tree, gpu)


def _add_foreign(tree: Tree, foreign: ForeignDrm) -> None:
    path = pci_path(foreign.pci_address, foreign.upstream)
    identity = {"vendor": f"0x{foreign.vendor_id:04x}", "device": f"0x{foreign.device_id:04x}", "class": "0x030000"}
    _add_function(tree, path, identity, driver=foreign.driver)
    driver = f"/sys/bus/pci/drivers/{foreign.driver}"
    tree.add_link(f"{path}/driver", driver)
    tree.add_link(f"{driver}/{foreign.pci_address}", path)


def _identity(gpu: SimulatedGpu) -> dict[str, str]:
    model = gpu.model
    return {
        "vendor": f"0x{model.vendor_id:04x}",
        "device": f"0x{model.device_id:04x}",
        "subsystem_vendor": f"0x{model.subsystem_vendor:04x}",
        "subsystem_device": f"0x{model.subsystem_device:04x}",
        "class": f"0x{model.pci_class:06x}",
        "revision": f"0x{model.revision:02x}",
        "numa_node": f"{gpu.numa_node}",
    }


def _add_function(tree: Tree, path: str, attributes: dict[str, str], *, driver: str) -> None:
    address = path.rpartition("/")[2]
    number = {name: int(text, 16) for name, text in attributes.items() if text.startswith("0x")}
    number = {"revision": 0, "subsystem_vendor": 0, "subsystem_device": 0} | number
    tree.add_attributes(path, {**attributes, "uevent": _uevent(number, address, driver), "irq": 0})
    tree.add_file(f"{path}/config", _configuration(number))
    tree.add_file(f"{path}/resource", NO_RESOURCE * RESOURCES)
    tree.add_link(f"{path}/subsystem", "/sys/bus/pci")
    tree.add_link(f"/sys/bus/pci/devices/{address}", path)


def _uevent(number: dict[str, int], address: str, driver: str) -> str:
    """Return what pci_uevent of drivers/pci/pci-driver.c says of a function."""
    lines = {
        **({"DRIVER": driver} if driver else {}),
        "PCI_CLASS": f"{number['class']:04X}",
        "PCI_ID": f"{number['vendor']:04X}:{number['device']:04X}",
        "PCI_SUBSYS_ID": f"{number['subsystem_vendor']:04X}:{number['subsystem_device']:04X}",
        "PCI_SLOT_NAME": address,
    }
    return "\n".join(f"{name}={text}" for name, text in lines.items())


def _configuration(number: dict[str, int]) -> bytes:
    """Return the header of a function's configuration space, as much of it as users may read."""
    revision_and_class = number["revision"] | number["class"] << 8
    identity = struct.pack("<HHHHI", number["vendor"], number["device"], DECODES, 0, revision_and_class)
    subsystem = struct.pack("<HH", number["subsystem_vendor"], number["subsystem_device"])
    return identity.ljust(SUBSYSTEM, b"\0") + subsystem.ljust(HEADER - SUBSYSTEM, b"\0")


def _add_module(tree: Tree, version: str) -> None:
    module = "/sys/module/amdgpu"
    tree.add_attributes(module, {"initstate": "live"} | ({"version": version} if version else {}))
    tree.add_link(f"{module}/drivers/pci:amdgpu", AMDGPU)
    tree.add_link(f"{AMDGPU}/module", module)
    for name in ("bind", "new_id", "remove_id", "uevent", "unbind"):
        tree.add_file(f"{AMDGPU}/{name}")


def _bind(tree: Tree, placed: PlacedGpu) -> None:
    gpu, path = placed.gpu, placed.path
    tree.add_link(f"{AMDGPU}/{gpu.pci_address}", path)
    tree.add_link(f"{path}/driver", AMDGPU)
    tree.add_attributes(path, _driver_attributes(gpu))
    if gpu.pci_unique_id is not None:
        # An id of 0 is an empty file.
        tree.add_file(f"{path}/unique_id", f"{gpu.pci_unique_id:016x}\n".encode() if gpu.pci_unique_id else b"")
    for device in placed.devices[1:]:
        _add_platform_device(tree, device.path)


def _driver_attributes(gpu: SimulatedGpu) -> dict[str, object]:
    modes = MODES_BY_XCC_COUNT.get(gpu.model.xcc_count, "Not supported") if gpu.compute_partition else ""
    texts = {
        "mem_info_vram_total": gpu.model.vram_bytes,
        "current_compute_partition": gpu.compute_partition,
        "available_compute_partition": gpu.available_compute_partition or modes,
        "current_memory_partition": gpu.memory_partition,
        "available_memory_partition": gpu.available_memory_partition,
    }
    return {"vbios_version": FIRMWARE, **gpu.model.attributes, **{name: text for name, text in texts.items() if text}}


def _add_platform_device(tree: Tree, path: str) -> None:
    name = path.rpartition("/")[2]
    # A number behind a dot is not part of the name by which drivers are found (platform_device_add).
    modalias = f"platform:{name.partition('.')[0]}"
    attributes = {"driver_override": "(null)", "modalias": modalias, "uevent": f"MODALIAS={modalias}"}
    tree.add_attributes(path, attributes)
    tree.add_link(f"{path}/subsystem", "/sys/bus/platform")
    tree.add_link(f"/sys/bus/platform/devices/{name}", path)


def add_drm(tree: Tree, access: Access, placed: PlacedHost) -> None:
    """Add every card and render node to sysfs and /dev/dri."""
    tree.add_attributes(DRM_CLASS, {"version": "drm 1.1.0 20060810"})
    for device in placed.devices:
        if device.card is not None:
            _add_minor(tree, device, f"card{device.card}", device.card)
            _add_card_extras(tree, device, device.card)
            tree.add_file(f"/dev/dri/card{device.card}", mode=access.card_mode, group=access.card_group)
            _add_alias(tree, device, "card", f"card{device.card}")
        if device.render is not None:
            _add_minor(tree, device, f"renderD{device.render}", device.render)
            tree.add_file(f"/dev/dri/renderD{device.render}", mode=access.render_mode, group=access.render_group)
            _add_alias(tree, device, "render", f"renderD{device.render}")


def _add_minor(tree: Tree, device: PlacedDrm, name: str, minor: int) -> None:
    path = f"{device.path}/drm/{name}"
    uevent = f"MAJOR={DRM_MAJOR}\nMINOR={minor}\nDEVNAME=dri/{name}\nDEVTYPE=drm_minor"
    tree.add_attributes(path, {"dev": f"{DRM_MAJOR}:{minor}", "uevent": uevent})
    tree.add_link(f"{path}/device", device.path)
    tree.add_link(f"{path}/subsystem", DRM_CLASS)
    tree.add_link(f"{DRM_CLASS}/{name}", path)
    tree.add_link(f"/sys/dev/char/{DRM_MAJOR}:{minor}", path)


def _add_card_extras(tree: Tree, device: PlacedDrm, card: int) -> None:
    card_path = f"{device.path}/drm/card{card}"
    # A remnant of a kind of node that Linux no longer has.
    tree.add_link(f"{device.path}/drm/controlD{card + 64}", card_path)
    for connector in device.connectors:
        name = f"card{card}-{connector}"
        tree.add_attributes(f"{card_path}/{name}", {"status": "disconnected", "enabled": "disabled"})
        tree.add_link(f"{card_path}/{name}/device", card_path)
        tree.add_link(f"{DRM_CLASS}/{name}", f"{card_path}/{name}")


def _add_alias(tree: Tree, device: PlacedDrm, node_type: str, name: str) -> None:
    bus = "platform" if device.path.startswith("/sys/devices/platform/") else "pci"
    own_name = device.path.rpartition("/")[2]
    # Other devices are named after the PCI function above them, or not at all.
    if bus == "platform" or parse_pci_address(own_name):
        tree.add_link(f"/dev/dri/by-path/{bus}-{own_name}-{node_type}", f"/dev/dri/{name}")
