"""Breaks a GPU of a simulated host, even while programs use it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator

from amdgpu_discovery.drm import DRM_CLASS
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.host import Host
from amdgpu_discovery.models import PCI_DEVICES
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator.hosts.kfd_sysfs import NODES
from amdgpu_simulator.hosts.pci_sysfs import AMDGPU

# The attributes of the PCI function after each fault. None means that reading it never ends.
FAULTS: dict[str, dict[str, str | None]] = {
    "hot": {
        "hwmon/hwmon0/name": "amdgpu",
        # rocm-smi 5.2 does not start if a sensor has no voltage.
        "hwmon/hwmon0/in0_label": "vddgfx",
        "hwmon/hwmon0/temp2_label": "junction",
        "hwmon/hwmon0/temp2_input": "112000",
        "hwmon/hwmon0/temp2_crit": "110000",
    },
    "ras": {"ras/umc_err_count": "ue: 1\nce: 12"},
    "busy": {"gpu_busy_percent": "100"},
    "hang": {"gpu_busy_percent": None},
}
LOST = "lost"
KINDS = (LOST, *FAULTS)


class CannotBreak(ToolkitError):
    """The GPU or the fault does not exist."""

    exit_code = 2


def break_gpu(host: Host, number: int, fault: str) -> None:
    """Let a fault happen to a GPU, and to all partitions of its board. Raises CannotBreak."""
    gpus = locate_gpus(host)
    gpu = next((each for each in gpus if each.number == number), None)
    if gpu is None:
        numbers = ", ".join(str(each.number) for each in gpus) or "no GPU"
        raise CannotBreak(f"GPU {number} does not exist", hint=f"there are {numbers}")
    if fault not in KINDS:
        raise CannotBreak(f"{fault!r} is not a fault", hint=f"the faults are {', '.join(KINDS)}")
    if fault == LOST:
        _remove_gpus(host, [each for each in gpus if each.pci_address == gpu.pci_address])
    for name, text in FAULTS.get(fault, {}).items():
        _write(host.path(f"{PCI_DEVICES}/{gpu.pci_address}/{name}"), text)


def _write(path: str, text: str | None) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.new"
    if text is None:
        os.mkfifo(new)
    else:
        with open(new, "w", encoding="ascii") as file:
            file.write(f"{text}\n")
    # A program that reads meanwhile gets either the old text or the new one.
    os.replace(new, path)


def _remove_gpus(host: Host, gpus: list[GpuLocation]) -> None:
    """Remove all that a driver removes when a board has gone from the bus, nodes first."""
    for gpu in gpus:
        for path in _paths_of(host, gpu):
            real = host.path(path)
            if os.path.isdir(real) and not os.path.islink(real):
                shutil.rmtree(real)
            elif os.path.lexists(real):
                os.unlink(real)


def _paths_of(host: Host, gpu: GpuLocation) -> Iterator[str]:
    for name in (os.path.basename(path) for path in (gpu.render_path, gpu.card_path) if path):
        yield f"/dev/dri/{name}"
        yield f"/sys/dev/char/{host.read_attribute(f'{DRM_CLASS}/{name}/dev')}"
        yield f"{DRM_CLASS}/{name}"
    yield f"{NODES}/{gpu.kfd_node}"
    yield f"{AMDGPU}/{gpu.pci_address}"
    yield f"{PCI_DEVICES}/{gpu.pci_address}"
