"""GPUs as values: where a GPU is, what leads to it, and what the driver reports about it."""

from __future__ import annotations

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HEXADECIMAL = "0123456789abcdefABCDEF"
# Bytes in 1 MiB, the unit of GPU memory.
MEBIBYTE = 2**20
# In bytes. Processes that only look at a GPU, drivers and firmware use less.
LEAST_VRAM = 256 * MEBIBYTE
# What firmware keeps grows with the GPU: an idle MI300X of 192 GiB uses 283 MiB.
LEAST_SHARE_OF_VRAM = 100


def is_vram_used(used: int, total: int) -> bool:
    """Return whether a GPU with `total` bytes of memory uses more of it than one that is idle."""
    return used > max(LEAST_VRAM, total // LEAST_SHARE_OF_VRAM)


class PciAddress(Value):
    """The address of a PCI function.

    Attributes:
        domain: PCI domain (segment), up to 32 bits; 0 on most machines.
        bus: Bus number, 8 bits.
        device: Slot on the bus, 5 bits.
        function: Function of the device, 3 bits.
    """

    domain: int
    bus: int
    device: int
    function: int

    def __str__(self) -> str:
        """Return the address as Linux prints it; a domain above 0xffff has more than four digits."""
        return f"{self.domain:04x}:{self.bus:02x}:{self.device:02x}.{self.function:x}"

    @property
    def sort_key(self) -> tuple[int, int, int, int]:
        """Return numbers that sort addresses; their text does not (10000:00 < 1001:00)."""
        return (self.domain, self.bus, self.device, self.function)


def parse_pci_address(text: str) -> PciAddress | None:
    """Parse `0000:03:00.0`, or `03:00.0` for domain 0 as lspci prints it; return None for anything else."""
    return parse_pci_addresses([text])[0]


def parse_pci_addresses(texts: Iterable[str]) -> list[PciAddress | None]:
    """Parse each text as `parse_pci_address` does."""
    numbers = [_parse_pci_number(text) for text in texts]
    return [
        None
        if number is None
        else PciAddress(domain=number >> 20, bus=number >> 12 & 0xFF, device=number >> 4 & 0xFF, function=number & 0xF)
        for number in numbers
    ]


def _parse_pci_number(text: str) -> int | None:
    """Return the digits of a PCI address as one number."""
    slot, dot, function = text.rpartition(".")
    parts = slot.split(":")
    if not dot or len(parts) not in (2, 3) or len(function) != 1:
        return None
    domain, bus, device = parts if len(parts) == 3 else ("0000", *parts)
    digits = f"{domain}{bus}{device}{function}"
    if len(domain) not in range(4, 9) or len(bus) != 2 or len(device) != 2 or digits.strip(HEXADECIMAL):
        return None
    return int(digits, 16)


class GpuLocation(Value):
    """One GPU or partition: its number and what leads to it. A container start needs no more to choose GPUs.

    `number` is what users write (`AMD_VISIBLE_DEVICES=0`, `amd.com/gpu=0`). GPUs are counted in the order of their
    parent's PCI address, then of their render minor. Every partition has its own number. GPUs that this process may not
    open keep their numbers, so a list may begin with GPU 2.

    Attributes:
        number: Number of the GPU on this host, from 0.
        pci_address: Address of the PCI function; partitions share it.
        render_minor: Minor number of `/dev/dri/renderD<minor>`.
        card_minor: Minor number of `/dev/dri/card<minor>`; None if an accelerator has no card node.
        kfd_node: Position in `/sys/class/kfd/kfd/topology/nodes`; valid until a GPU comes or goes, never an identity.
        kfd_unique_id: 64-bit id that rocminfo and HIP print; 0 if the hardware has none. Partitions share it or have
            their own.
        pci_unique_id: 64-bit id of the PCI function, which rocm-smi and amd-smi (ASIC_SERIAL) print; 0 if there is
            none.
        partition_rank: Position among the partitions of the parent, from 0.
        partition_total: How many partitions of the parent are in use; 1 if it is not partitioned.
        host_total: How many GPUs the host has, including those that the device cgroup of this process hides.
    """

    number: int
    pci_address: PciAddress
    render_minor: int
    card_minor: int | None
    kfd_node: int
    kfd_unique_id: int
    pci_unique_id: int
    partition_rank: int
    partition_total: int
    host_total: int

    @property
    def key(self) -> str:
        """Return what identifies this GPU on its host, even after a reboot: its address and rank."""
        return f"{self.pci_address}/{self.partition_rank}"

    @property
    def uuid(self) -> str:
        """Return the unique id as the guide prints it, such as `0xEA35F57CC80DEB35`; `N/A` if there is none."""
        return f"0x{self.unique_id:X}" if self.unique_id else "N/A"

    @property
    def render_path(self) -> str:
        """Return the path of the node through which ROCm reaches this GPU."""
        return f"/dev/dri/renderD{self.render_minor}"

    @property
    def card_path(self) -> str | None:
        """Return the path of the mode-setting node, None if there is none."""
        return None if self.card_minor is None else f"/dev/dri/card{self.card_minor}"

    @property
    def unique_id(self) -> int:
        """Return the id shown to users: KFD's, else that of the PCI function; 0 if there is none."""
        return self.kfd_unique_id or self.pci_unique_id


class DeviceNumber(Value):
    """A character device and its number in the kernel.

    Attributes:
        path: Path in `/dev`.
        major: Major number: 226 for DRM nodes, and for `/dev/kfd` the one in its `dev` file in sysfs.
        minor: Minor number from KFD or the name in sysfs. Never read from `/dev`.
    """

    path: str
    major: int
    minor: int


class DeviceNode(DeviceNumber):
    """A device node: the number is the driver's; mode and owner are those of the node in `/dev`.

    Attributes:
        mode: Permission bits, `0o660` for example.
        uid: User id of the owner.
        gid: Group id of the owner; that of `render` on most hosts.
    """

    mode: int
    uid: int
    gid: int


NOT_IN_KFD = "the kernel's compute driver (KFD) does not list it"
NO_RENDER_NODE = "the render node that the kernel's compute driver (KFD) names for it does not exist"


class Gpu(GpuLocation):
    """One GPU or partition with everything that the driver reports about it.

    Attributes:
        render_node: Device number of the render node.
        card_node: Device number of the card node; None if there is none.
        gpu_id: KFD's 16-bit hash of slot and mode, the GUID column of rocm-smi. Not a unique id.
        gfx_target: Name that compilers use, such as `gfx942`; "" if the kernel does not report it.
        device_id: PCI device id, `0x74a1` for MI300X.
        vram_bytes: Bytes of memory that this GPU or partition can use, on an APU its share of system memory; None if
            unknown.
        numa_node: NUMA node next to the GPU; None if unknown.
        compute_partition: Compute mode, `SPX` to `CPX`; "" on hardware that cannot be partitioned.
        memory_partition: Memory mode, `NPS1` to `NPS8`; "" on hardware that cannot be partitioned.
        cu_count: Number of compute units.
        is_apu: Whether the GPU is on one package with the processor, whose memory it uses.
        xgmi_hive: Id shared by all GPUs that reach each other by XGMI; None without XGMI.
    """

    render_node: DeviceNumber
    card_node: DeviceNumber | None
    gpu_id: int
    gfx_target: str
    device_id: int
    vram_bytes: int | None
    numa_node: int | None
    compute_partition: str
    memory_partition: str
    cu_count: int
    is_apu: bool
    xgmi_hive: int | None


class UnnumberedGpu(Value):
    """A GPU of the amdgpu driver that cannot compute; no container can ask for it.

    Attributes:
        pci_address: Address of the PCI function.
        device_id: PCI device id; 0 if unknown.
        render_minor: Minor number of its render node; None if there is none.
        card_minor: Minor number of its card node; None if there is none.
        reason: Why it has no number, as a clause with "it" for the GPU.
    """

    pci_address: PciAddress
    device_id: int
    render_minor: int | None
    card_minor: int | None
    reason: str = NOT_IN_KFD
