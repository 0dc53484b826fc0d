"""What a KFD node says that a container start does not ask: its hash and its memory.

Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c.
"""

from __future__ import annotations

from amdgpu_discovery.kfd_topology import read_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host
    from amdgpu_discovery.kfd_topology import KfdNode

# KFD_CRAT heap types: video memory that the CPU can reach through the PCI window, and that it cannot.
FRAME_BUFFER_HEAPS = (1, 2)


def read_gpu_id(host: Host, node: KfdNode) -> int:
    """Return the 16-bit hash that rocm-smi calls GUID, 0 where it is refused."""
    text = host.read_attribute(f"{node.path}/gpu_id")
    return int(text) if text.isdecimal() else 0


def read_vram_bytes(host: Host, node: KfdNode) -> int | None:
    """Return the bytes of video memory of this node, None where the kernel does not say."""
    paths = (f"{node.path}/mem_banks/{bank}/properties" for bank in host.names(f"{node.path}/mem_banks"))
    banks = [f"\n{host.read_attribute(path)}\n" for path in paths]
    sizes = [read_property(bank, "size_in_bytes") for bank in banks if _is_frame_buffer(bank)]
    return sum(sizes) or None


def _is_frame_buffer(bank: str) -> bool:
    return read_property(bank, "heap_type") in FRAME_BUFFER_HEAPS
