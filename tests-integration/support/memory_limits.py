"""The memory of simulated GPUs, and the kernel's limits on it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from amdgpu_discovery.numbering import locate_gpus

if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

GIB = 1 << 30
NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"


def limit_memory(host: Host, cgroup: str, address: str, *, limit: int, charged: int) -> None:
    """Let the kernel limit a cgroup on the GPU with this PCI address; both amounts are in GiB."""
    region = f"drm/{address}/vram"
    root = Path(host.path("/sys/fs/cgroup"))
    (root / cgroup).mkdir(parents=True)
    (root / "dmem.capacity").write_text(f"{region} {64 * GIB}\n")
    (root / cgroup / "dmem.max").write_text(f"{region} {limit * GIB}\n")
    (root / cgroup / "dmem.current").write_text(f"{region} {charged * GIB}\n")


def shrink(host: Host, number: int) -> None:
    """Give a GPU of a server with MI210 only 4 GiB of memory."""
    node = locate_gpus(host)[number].kfd_node
    bank = Path(host.path(f"{NODES}/{node}/mem_banks/0/properties"))
    bank.write_text(bank.read_text().replace(f"size_in_bytes {65520 << 20}\n", f"size_in_bytes {4 * GIB}\n"))


def hide_memory(host: Host, number: int) -> None:
    """Let the kernel not say how much memory a GPU has."""
    gpu = locate_gpus(host)[number]
    shutil.rmtree(host.path(f"{NODES}/{gpu.kfd_node}/mem_banks"))
    Path(host.path(f"/sys/bus/pci/devices/{gpu.pci_address}/mem_info_vram_total")).unlink()
