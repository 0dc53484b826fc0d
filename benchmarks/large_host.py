"""Build simulated hosts with more GPUs than any profile has."""

from __future__ import annotations

from pathlib import Path

from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host, load_profile


def build_large_host(directory: Path, count: int) -> Host:
    """Build a host with `count` MI210, 16 per PCI domain."""
    profile = load_profile("mi210-4")
    # Before Linux 6.12, there are only minors for 64 GPUs.
    driver = profile.driver.replace(shared_minors=True) if profile.driver else None
    gpus = (
        profile.gpus[number % 4].replace(pci_address=f"{number // 16 + 1:04x}:{number % 16 * 8 + 3:02x}:00.0")
        for number in range(count)
    )
    return build_host(directory, profile.replace(gpus=tuple(gpus), driver=driver), bare=True)
