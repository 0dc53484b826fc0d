"""AMD GPUs of a host that another driver than amdgpu has, or none, and GPUs that are only half there."""

from __future__ import annotations

from amdgpu_discovery.driver.drm import DRM_CLASS, amdgpu_pci_addresses
from amdgpu_discovery.driver.kfd_topology import KfdNode, read_topology
from amdgpu_discovery.gpu import PciAddress, parse_pci_address
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

PCI_DEVICES = "/sys/bus/pci/devices"
AMD_VENDOR = "0x1002"
# PCI: display controllers, and processing accelerators.
GPU_CLASSES = ("0x03", "0x12")
# Linux: drm_firmware_drivers_only, and amdgpu_init.
REFUSING_OPTIONS = ("nomodeset", "amdgpu.modeset=0")
# Lists of modules, of kernel/module/main.c and of modprobe.
BLACKLISTS = ("module_blacklist", "modprobe.blacklist")


class ForeignGpu(Value):
    """A GPU at a PCI address whose `driver` is not amdgpu, "" for none."""

    pci_address: str
    driver: str

    @property
    def words(self) -> str:
        """Return a clause about the GPU and its driver."""
        if not self.driver:
            return f"the GPU at {self.pci_address} has no driver"
        return f"the GPU at {self.pci_address} belongs to the driver {self.driver}, and not to amdgpu"


def find_pci_functions(host: Host) -> list[str]:
    """Return the PCI addresses of AMD's GPUs, with any driver or none."""
    names = sorted(host.names(PCI_DEVICES))
    vendors = host.read_attributes([f"{PCI_DEVICES}/{name}/vendor" for name in names])
    ours = [name for name, vendor in zip(names, vendors, strict=True) if vendor == AMD_VENDOR]
    return [name for name in ours if host.read_attribute(f"{PCI_DEVICES}/{name}/class").startswith(GPU_CLASSES)]


def find_foreign_gpus(host: Host) -> list[ForeignGpu]:
    """Return AMD's GPUs that the amdgpu driver does not have, by PCI address."""
    own = {str(address) for address in amdgpu_pci_addresses(host)}
    found = (
        ForeignGpu(pci_address=name, driver=host.link(f"{PCI_DEVICES}/{name}/driver").rpartition("/")[2])
        for name in find_pci_functions(host)
        if name not in own
    )
    return [gpu for gpu in found if gpu.driver != "amdgpu"]


def find_refusing_option(command_line: str) -> str:
    """Return the option of a kernel's command line that keeps amdgpu from loading, "" if there is none."""
    for word in command_line.split():
        name, _, value = word.partition("=")
        if word in REFUSING_OPTIONS or (name in BLACKLISTS and "amdgpu" in value.split(",")):
            return word
    return ""


def find_left_over(host: Host) -> list[PciAddress]:
    """Return where KFD still lists a GPU that is gone: an open file keeps the node of a GPU that was pulled out."""
    functions = [parse_pci_address(name) for name in host.names(PCI_DEVICES)]
    slots = {(found.domain, found.bus, found.device) for found in functions if found}
    nodes = [node for node in read_topology(host).gpu_nodes if slots and node.slot not in slots]
    return [_address_of(node) for node in nodes if not host.stat(f"{DRM_CLASS}/renderD{node.render_minor}")]


def _address_of(node: KfdNode) -> PciAddress:
    domain, bus, device = node.slot
    return PciAddress(domain=domain, bus=bus, device=device, function=0)
