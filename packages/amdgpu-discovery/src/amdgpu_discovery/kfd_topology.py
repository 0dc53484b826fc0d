"""Read the KFD topology: the driver's own list of GPUs and partitions that can compute.

Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c. The whole tree is removed and built again when a GPU comes or goes
or a partition mode changes, so a reader compares `generation_id` before and after, as libhsakmt does.
"""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

TOPOLOGY = "/sys/class/kfd/kfd/topology"

# A rebuild takes well under a millisecond; whoever loses this often is not losing a race.
ATTEMPTS = 100

# KFD_CRAT heap types: video memory that the CPU can reach through the PCI window, and that it cannot.
FRAME_BUFFER_HEAPS = (1, 2)


class KfdNode(Value):
    """One node: its `number` in the topology and its `properties` as the kernel prints them, each behind a newline."""

    number: int
    # 0 for a CPU; old APU nodes have CPU cores too, so those prove nothing.
    render_minor: int
    properties: str

    def read(self, key: str) -> int:
        """Return a property; 0 where this kernel does not have it, as the kernel itself prints for "none"."""
        return read_property(self.properties, key)

    @property
    def path(self) -> str:
        """Return the node's directory in sysfs."""
        return f"{TOPOLOGY}/nodes/{self.number}"


class Topology(Value):
    """The GPU nodes that this process may know, in KFD's order; `is_whole` if these are all there are."""

    gpu_nodes: list[KfdNode]
    is_whole: bool


def read_topology(host: Host) -> Topology:
    """Return the GPU nodes, none where there is no KFD.

    A node whose read is refused (EPERM) belongs to a GPU outside this process's device cgroup: it is left out, as is
    one that goes away meanwhile. ToolkitError if the topology never holds still, or if it cannot be read for another
    reason: GPUs must not take the numbers of those that were overlooked.
    """
    for _ in range(ATTEMPTS):
        before = _generation(host)
        nodes = [_read_node(host, number) for number in _node_numbers(host)]
        if _generation(host) == before:
            return Topology(
                gpu_nodes=[node for node in nodes if node and node.render_minor],
                is_whole=None not in nodes,
            )
    raise ToolkitError(
        f"the KFD topology changed {ATTEMPTS} times while it was read",
        hint="wait until the driver has settled, then try again",
    )


def read_gpu_id(host: Host, node: KfdNode) -> int:
    """Return the 16-bit hash that rocm-smi calls GUID, 0 where it is refused."""
    text = host.read_attribute(f"{node.path}/gpu_id")
    return int(text) if text.isdecimal() else 0


def read_vram_bytes(host: Host, node: KfdNode) -> int | None:
    """Return the bytes of video memory of this node, None where the kernel does not say."""
    paths = (f"{node.path}/mem_banks/{bank}/properties" for bank in host.names(f"{node.path}/mem_banks"))
    banks = ["\n" + host.read_attribute(path) for path in paths]
    sizes = [read_property(bank, "size_in_bytes") for bank in banks if _is_frame_buffer(bank)]
    return sum(sizes) or None


def read_property(properties: str, key: str) -> int:
    """Return the number behind a key in text of lines `key number`, each behind a newline; 0 where there is none.

    Keys are added over time and in the middle, so nothing depends on their order; a few of the forty are looked for in
    the text, because taking all of them apart takes longer.
    """
    value = properties.partition(f"\n{key} ")[2].partition("\n")[0]
    return int(value) if value.isdecimal() else 0


def _is_frame_buffer(bank: str) -> bool:
    return read_property(bank, "heap_type") in FRAME_BUFFER_HEAPS


def _generation(host: Host) -> str:
    return host.read_attribute(f"{TOPOLOGY}/generation_id")


def _node_numbers(host: Host) -> list[int]:
    # As numbers: 10 comes after 2.
    return sorted(int(name) for name in host.names(f"{TOPOLOGY}/nodes") if name.isdecimal())


def _read_node(host: Host, number: int) -> KfdNode | None:
    path = f"{TOPOLOGY}/nodes/{number}/properties"
    try:
        properties = "\n" + host.read(path).decode("ascii", "replace")
    except (PermissionError, FileNotFoundError):
        # Refused by the device cgroup, or gone before it was opened.
        return None
    except OSError as error:
        import errno

        # Gone while it was open (fs/kernfs/file.c).
        if error.errno == errno.ENODEV:
            return None
        raise ToolkitError(f"{path} cannot be read: {reason(error)}") from error
    render_minor = read_property(properties, "drm_render_minor")
    return KfdNode(number=number, render_minor=render_minor, properties=properties)
