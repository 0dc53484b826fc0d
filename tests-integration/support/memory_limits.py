"""The kernel's limits on the memory of simulated GPUs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from amdgpu_discovery.host import Host

GIB = 1 << 30


def limit_memory(host: Host, cgroup: str, address: str, *, limit: int, charged: int) -> None:
    """Let the kernel limit a cgroup on the GPU with this PCI address; both amounts are in GiB."""
    region = f"drm/{address}/vram"
    root = Path(host.path("/sys/fs/cgroup"))
    (root / cgroup).mkdir(parents=True)
    (root / "dmem.capacity").write_text(f"{region} {64 * GIB}\n")
    (root / cgroup / "dmem.max").write_text(f"{region} {limit * GIB}\n")
    (root / cgroup / "dmem.current").write_text(f"{region} {charged * GIB}\n")
