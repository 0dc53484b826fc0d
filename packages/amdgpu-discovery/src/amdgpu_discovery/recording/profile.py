"""The parts of a simulated host: values that are easy to write down, to change in a test and to generate."""

from __future__ import annotations

from typing import Any

from amdgpu_discovery.driver.compute_modes import PARTITIONS_BY_MODE
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.value import Value, parse_field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Self

# Minors of a card and a render node; None for a node that the device does not have.
Minors = tuple[int | None, int | None]


class ProfileError(ToolkitError):
    """The profile describes an impossible host, or no profile has this name."""

    exit_code = 6


# Numbers that people write in hexadecimal or octal; JSON has them as text.
HEXADECIMAL = frozenset(
    (
        *("device_id", "vendor_id", "subsystem_vendor", "subsystem_device", "revision", "pci_class"),
        *("hive_id", "pci_unique_id", "kfd_unique_ids"),
    )
)
OCTAL = frozenset(("card_mode", "render_mode"))


class Part(Value):
    """A part of a profile."""

    @classmethod
    def from_json(cls, fields: Any, types: Mapping[str, type[Value]] = {}) -> Self:
        """Return a part from JSON's fields; ValueError for a field of a wrong type, TypeError for an unknown one."""
        kinds = cls.fields()
        return cls(
            **{
                name: parse_field(name, kinds.get(name, "Any"), _number(name, field), types)
                for name, field in fields.items()
            }
        )


def _number(name: str, field: Any) -> Any:
    """Convert a number that JSON has as text; return anything else unchanged."""
    if isinstance(field, list):
        return [_number(name, item) for item in field]
    if not isinstance(field, str):
        return field
    if name in HEXADECIMAL:
        return int(field, 16)
    return int(field, 8) if name in OCTAL else field


class GpuModel(Part):
    """What all GPUs of one product have in common in KFD's node and in the PCI function."""

    product: str
    device_id: int
    gfx_target_version: int
    # Of one accelerator die (XCC); partitions get whole dies.
    simd_per_xcc: int
    arrays_per_xcc: int
    # Video memory according to the PCI function; on an APU what the firmware has set aside. None if unknown.
    vram_bytes: int | None
    # Memory according to KFD, if that differs: on an APU the share of system memory that GPUs may use.
    kfd_bytes: int | None = None
    kfd_name: str = "ip discovery"
    vendor_id: int = 0x1002
    subsystem_vendor: int = 0x1002
    subsystem_device: int = 0
    revision: int = 0
    pci_class: int = 0x030000
    xcc_count: int = 1
    # Platform devices that the driver makes beside each function, used or not: 7 on everything since MI300.
    xcp_devices: int = 0
    # 1 if the CPU reaches all memory through the PCI window, 2 if it does not.
    heap_type: int = 1
    # Whether the CPU is on the same package and reached by XGMI, as on MI300A.
    cpu_by_xgmi: bool = False
    pcie_bandwidth: tuple[int, int] = (0, 0)
    xgmi_bandwidth: tuple[int, int] = (0, 0)
    xgmi_sdma_engines: int = 0
    memory_width: int = 0
    memory_clock: int = 0
    # Other properties of the KFD node, and attributes of the PCI function.
    properties: dict[str, int] = {}  # noqa: RUF012 - a default of a value, which is never changed
    attributes: dict[str, str] = {}  # noqa: RUF012
    # What a GPU without work shows, by attribute. Those in "hwmon/" are sensors, unless a GPU's `health` has its own.
    idle: dict[str, str] = {}  # noqa: RUF012


class PciFunction(Part):
    """A PCI function with DRM nodes."""

    pci_address: str
    # The root bus and the bridges above the function; () for a root port that the address suggests.
    upstream: tuple[str, ...] = ()
    # Of the function, then of its partitions' platform devices; () for the next free ones.
    minors: tuple[tuple[int | None, int | None], ...] = ()
    connectors: tuple[str, ...] = ()


class SimulatedGpu(PciFunction):
    """One PCI function of the amdgpu driver and its partitions.

    `()` for ids and sizes stands for what the driver would most likely choose.
    """

    model: GpuModel
    numa_node: int = -1
    # None: the kernel makes no file (APUs and others); 0: the file is empty.
    pci_unique_id: int | None = None
    # One for each partition, or one for all; () for that of the PCI function.
    kfd_unique_ids: tuple[int, ...] = ()
    # KFD's hashes, one for each partition.
    gpu_ids: tuple[int, ...] = ()
    # Its numbers in KFD, one for each partition; () for the lowest free ones. A GPU that came later leaves a hole.
    kfd_nodes: tuple[int, ...] = ()
    compute_partition: str = ""
    memory_partition: str = ""
    # "": the first follows from the model's XCCs, and the second file does not exist.
    available_compute_partition: str = ""
    available_memory_partition: str = ""
    # Number of KFD nodes: None for what `compute_partition` makes, 0 for a GPU that KFD does not list.
    partitions: int | None = None
    # None for a partition whose memory KFD does not list.
    partition_bytes: tuple[int | None, ...] = ()
    # 0 without XGMI.
    hive_id: int = 0
    # The N of amdgpu_xcp_N, which has no meaning.
    xcp_numbers: tuple[int, ...] = ()
    # How busy it is, in percent; None if the power management does not report it.
    busy_percent: int | None = None
    # Other attributes about health and use, by name, such as "ras/umc_err_count". Reading "[EIO]", "[ENODEV]" or
    # "[ETIMEDOUT]" fails with that error.
    health: dict[str, str] = {}  # noqa: RUF012

    @property
    def wanted_partitions(self) -> int:
        """Return how many partitions the driver tries to list in KFD."""
        if self.partitions is not None:
            return self.partitions
        of_mode = PARTITIONS_BY_MODE.get(self.compute_partition, 1)
        return self.model.xcc_count if self.compute_partition == "CPX" else of_mode


class CpuNode(Part):
    """One NUMA node with processors."""

    cores: int
    memory_bytes: int
    core_id_base: int | None = None
    # MI300A only, whose processors are in the hive.
    hive_id: int = 0
    clock: int = 2450
    # Its number in KFD; None for the lowest free one, because processors nearly always come before GPUs.
    node: int | None = None


class ForeignDrm(PciFunction):
    """A PCI function of another driver, such as the board's management controller or an Intel GPU."""

    driver: str
    vendor_id: int
    device_id: int
    has_render: bool = False


class OtherDrm(Part):
    """A device with DRM nodes that is not a PCI function: a virtual display, or the display of an ARM board."""

    # Its directory below /sys/devices.
    path: str
    minors: tuple[int | None, int | None]
    connectors: tuple[str, ...] = ()


class SimulatedUse(Part):
    """The use of one GPU or partition by a process."""

    # Position in the profile's `gpus`.
    gpu: int
    partition: int = 0
    vram_bytes: int = 0
    gtt_bytes: int = 0
    # Only KFD reports these.
    compute_units: int = 0
    sdma_us: int = 0
    # Nanoseconds by the engine's name; only DRM reports them.
    engines: dict[str, int] = {}  # noqa: RUF012 - a default of a value, which is never changed
    # Whether the process computes, so that KFD knows it.
    in_kfd: bool = True
    # Its DRM client; 0 for a process that has no render node open.
    client_id: int = 0


class SimulatedProcess(Part):
    """A process of the host that uses GPUs. A host with processes has its own /proc, which only usage reads."""

    pid: int
    name: str = "python"
    cgroup: str = "/"
    # Id of its user; None for a process whose /proc does not show it.
    uid: int | None = None
    uses: tuple[SimulatedUse, ...] = ()


class Driver(Part):
    """How this version of the amdgpu driver behaves."""

    # Of the DKMS module; "" for the kernel's own driver, which has no version file.
    version: str = ""
    # None for a kernel without KFD.
    kfd_major: int | None = 511
    generation_id: int | None = None
    # Older drivers put a dot between name and number of the partitions' platform devices.
    xcp_separator: str = "_"
    # Linux 6.12 and later: beyond the 64 of each kind, cards and render nodes share the minors from 192.
    shared_minors: bool = False
    # Whether KFD lists the paths between GPUs that have no XGMI in common.
    peer_to_peer: bool = True
    # Properties that this version does not print.
    absent_properties: tuple[str, ...] = ()


class Access(Part):
    """Permission bits and group that udev gives to nodes in /dev."""

    card_mode: int = 0o660
    card_group: int = 44
    render_mode: int = 0o660
    render_group: int = 110


class Profile(Part):
    """One host."""

    name: str
    about: str = ""
    # Which of its values are known from real hosts.
    origin: str = ""
    # In the order in which the driver probes them, which is also that of KFD and of free minors.
    gpus: tuple[SimulatedGpu, ...] = ()
    # None: the driver is not loaded, and the GPUs are only PCI functions.
    driver: Driver | None = Driver()
    cpus: tuple[CpuNode, ...] = (CpuNode(cores=16, memory_bytes=64 << 30),)
    foreign: tuple[ForeignDrm, ...] = ()
    others: tuple[OtherDrm, ...] = ()
    processes: tuple[SimulatedProcess, ...] = ()
    access: Access = Access()

    @property
    def functions(self) -> list[PciFunction]:
        """Return every PCI function, the GPUs first."""
        return [*self.gpus, *self.foreign]

    def with_gpu(self, position: int, **changes: Any) -> Self:
        """Return this host with changes to one GPU; positions are those in `gpus`."""
        gpus = list(self.gpus)
        gpus[position] = gpus[position].replace(**changes)
        return self.replace(gpus=tuple(gpus))

    def with_every_gpu(self, **changes: Any) -> Self:
        """Return this host with changes to all of its GPUs."""
        return self.replace(gpus=tuple(gpu.replace(**changes) for gpu in self.gpus))

    def with_driver(self, **changes: Any) -> Self:
        """Return this host with changes to its driver."""
        return self.replace(driver=(self.driver or Driver()).replace(**changes))
