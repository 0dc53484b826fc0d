"""Breaks a GPU of a simulated host, even while programs use it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver.drm import DRM_CLASS
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.gpu import Gpu, GpuLocation
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.tables.models import PCI_DEVICES
from amdgpu_simulator.hosts.kfd_sysfs import KFD, NODES
from amdgpu_simulator.hosts.pci_sysfs import AMDGPU

# The attributes of the PCI function after each fault. None means that reading it never ends.
FAULTS: dict[str, dict[str, str | None]] = {
    "hot": {
        "hwmon/temp2_label": "junction",
        "hwmon/temp2_input": "112000",
        "hwmon/temp2_crit": "110000",
    },
    "ras": {"ras/umc_err_count": "ue: 1\nce: 12"},
    "busy": {"gpu_busy_percent": "100"},
    "hang": {"gpu_busy_percent": None},
}
LOST, LEAKED, ORPHAN, DIRTY_MODE = "lost", "leaked", "orphan", "dirty-mode"
KINDS = (LOST, *FAULTS, LEAKED, ORPHAN, DIRTY_MODE)
# How much of a GPU's memory stays in use.
LEAKED_SHARE = 0.9
ORPHAN_BYTES = 9 << 30
# The highest process id of any kernel, which no real process has by chance. The orphan of GPU 1 has the one below.
LAST_PID = (1 << 22) - 1
MEMORY_MODES = ("NPS1", "NPS4")


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
    for name, text in _attributes_of(host, gpu, fault).items():
        _write(host.path(f"{PCI_DEVICES}/{gpu.pci_address}/{name}"), text)
    if fault == ORPHAN:
        _add_orphan(host, find_gpus(host), number)


def _attributes_of(host: Host, gpu: GpuLocation, fault: str) -> Mapping[str, str | None]:
    """Return the attributes to write to the GPU's PCI function. Raises CannotBreak for a mode that it does not have."""
    now = f"{PCI_DEVICES}/{gpu.pci_address}"
    if fault == LEAKED:
        total = int(host.read_attribute(f"{now}/mem_info_vram_total") or 0)
        return {"mem_info_vram_used": str(int(total * LEAKED_SHARE))}
    if fault == DIRTY_MODE:
        mode = host.read_attribute(f"{now}/current_memory_partition")
        if not mode:
            raise CannotBreak(f"GPU {gpu.number} has no partition modes", hint="simulate mi300x-8, for example")
        return {"current_memory_partition": next(each for each in MEMORY_MODES if each != mode)}
    # A model without idle values has no sensors, and gets a directory for them.
    sensors = next(iter(sorted(host.names(f"{now}/hwmon"))), "hwmon0")
    return {name.replace("hwmon/", f"hwmon/{sensors}/"): text for name, text in FAULTS.get(fault, {}).items()}


def _add_orphan(host: Host, gpus: Sequence[Gpu], number: int) -> None:
    """Let KFD count memory of a GPU for a process that is in no reservation and that /proc does not have."""
    directory = f"{KFD}/proc/{LAST_PID - number}"
    _write(host.path(f"{directory}/pasid"), str(LAST_PID - number))
    for gpu in gpus:
        held = ORPHAN_BYTES if gpu.number == number else 0
        _write(host.path(f"{directory}/vram_{gpu.gpu_id}"), str(held))
        _write(host.path(f"{directory}/sdma_{gpu.gpu_id}"), "0")
        _write(host.path(f"{directory}/stats_{gpu.gpu_id}/cu_occupancy"), "0")


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
