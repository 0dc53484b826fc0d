"""Reads the KFD topology: the driver's own list of GPUs and partitions that can compute.

Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c. The kernel removes the whole tree and builds it again when a GPU
comes or goes or a partition mode changes. So a reader compares `generation_id` before and after, as libhsakmt does.
"""

from __future__ import annotations

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

TOPOLOGY = "/sys/class/kfd/kfd/topology"
# A directory for each process that has opened /dev/kfd.
KFD_PROCESSES = "/sys/class/kfd/kfd/proc"

# A rebuild takes well under a millisecond, so losing this often is not a race.
ATTEMPTS = 100
# KFD_CRAT heap types: video memory that the CPU can reach through the PCI window, and memory that it cannot reach.
FRAME_BUFFER_HEAPS = (1, 2)


# Digits of 2^64 - 1, the largest number that the kernel prints; Python refuses to convert thousands of digits.
MOST_PROPERTY_DIGITS = 20
# The render minor of a node whose properties this process may not read.
HIDDEN = -1


class KfdNode(Value):
    """One node: its `number` in the topology and its `properties` as the kernel prints them, between newlines."""

    number: int
    # 0 for a CPU. CPU cores would not show that: old APU nodes have some too. HIDDEN if the node cannot be read.
    render_minor: int
    properties: str

    def read(self, key: str) -> int:
        """Return a property; 0 if this kernel does not have it, as the kernel itself prints for "none"."""
        return read_property(self.properties, key)

    @property
    def slot(self) -> tuple[int, int, int]:
        """Return the PCI domain, bus and device of a GPU; KFD does not show its function."""
        # Kernels without "domain" have one domain. Bits 2:0 (once 31:28) are the partition, not the function.
        location = self.read("location_id")
        return self.read("domain"), location >> 8 & 0xFF, location >> 3 & 0x1F

    @property
    def path(self) -> str:
        """Return the node's directory in sysfs."""
        return f"{TOPOLOGY}/nodes/{self.number}"


class Topology(Value):
    """The GPU nodes that this process may know, in KFD's order; `is_whole` if there are no others."""

    gpu_nodes: list[KfdNode]
    is_whole: bool
    # How many GPU nodes the device cgroup of this process hides.
    hidden: int


def read_topology(host: Host) -> Topology:
    """Return the GPU nodes, none if there is no KFD.

    If the kernel refuses to read a node, the node belongs to a GPU outside this process's device cgroup and is counted.
    A node that goes away meanwhile is left out. Raises ToolkitError if the topology keeps changing, or if a node cannot
    be read for another reason: GPUs must not take the numbers of those that were overlooked.
    """
    for _ in range(ATTEMPTS):
        before = read_generation(host)
        nodes = _read_nodes(host)
        if read_generation(host) == before:
            hidden = sum(node is not None and node.render_minor == HIDDEN for node in nodes)
            return Topology(
                gpu_nodes=[node for node in nodes if node and node.render_minor not in (0, HIDDEN)],
                is_whole=None not in nodes and not hidden,
                hidden=hidden,
            )
    raise ToolkitError(
        f"the KFD topology changed {ATTEMPTS} times while it was read",
        hint="wait until the driver has settled, then try again",
    )


def read_property(properties: str, key: str) -> int:
    """Return the number of a key in text of lines `key number` between newlines; 0 if there is none.

    Kernels add keys over time and in the middle, so nothing depends on their order. The text is searched for a few of
    the forty keys, because parsing all of them takes longer.
    """
    start = properties.find(f"\n{key} ")
    if start < 0:
        return 0
    start += len(key) + 2
    return parse_number(properties[start : properties.find("\n", start)]) or 0


def parse_number(text: str) -> int | None:
    """Parse a number that the kernel prints; return None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_PROPERTY_DIGITS else None


def read_generation(host: Host) -> str:
    """Return the counter that changes whenever nodes come or go, "" if there is no KFD."""
    return host.read_attribute(f"{TOPOLOGY}/generation_id")


def count_nodes(host: Host) -> int:
    """Return how many nodes KFD has, of processors and of GPUs."""
    return sum(name.isdecimal() for name in host.names(f"{TOPOLOGY}/nodes"))


def _read_nodes(host: Host) -> list[KfdNode | None]:
    """Return the nodes by number, None for a node that is gone."""
    # Sort as numbers: 10 comes after 2.
    numbers = sorted(int(name) for name in host.names(f"{TOPOLOGY}/nodes") if name.isdecimal())
    paths = [f"{TOPOLOGY}/nodes/{number}/properties" for number in numbers]
    texts = [_as_text(path, content) for path, content in zip(paths, host.read_each(paths), strict=True)]
    minors = [read_property(text, "drm_render_minor") if text else HIDDEN for text in texts]
    return [
        None if text is None else KfdNode(number=number, render_minor=minor, properties=text)
        for number, minor, text in zip(numbers, minors, texts, strict=True)
    ]


def _as_text(path: str, content: bytes | OSError) -> str | None:
    """Return the properties of a node between newlines, "" for a node that is hidden, None for one that is gone."""
    if isinstance(content, bytes):
        return f"\n{content.decode('ascii', 'replace')}\n"
    # EPERM comes from the device cgroup (kfd_priv.h, kfd_devcgroup_check_permission), which does not concern CPU nodes.
    # EACCES from a security module means the same.
    if isinstance(content, PermissionError):
        return ""
    import errno

    # ENODEV: the node went away while it was open (fs/kernfs/file.c).
    if content.errno in (errno.ENOENT, errno.ENODEV):
        return None
    raise ToolkitError(f"{path} cannot be read: {reason(content)}") from content


def read_gpu_id(host: Host, node: KfdNode) -> int:
    """Return the 16-bit hash that rocm-smi calls GUID, 0 if the kernel refuses to read it."""
    return parse_number(host.read_attribute(f"{node.path}/gpu_id")) or 0


def read_vram_bytes(host: Host, node: KfdNode) -> int | None:
    """Return the bytes of video memory of this node, None if the kernel does not report them."""
    paths = (f"{node.path}/mem_banks/{bank}/properties" for bank in host.names(f"{node.path}/mem_banks"))
    banks = [f"\n{host.read_attribute(path)}\n" for path in paths]
    sizes = [read_property(bank, "size_in_bytes") for bank in banks if _is_frame_buffer(bank)]
    return sum(sizes) or None


def _is_frame_buffer(bank: str) -> bool:
    return read_property(bank, "heap_type") in FRAME_BUFFER_HEAPS
