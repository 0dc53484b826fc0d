"""Builds what GPUs show of their work and health: memory, clocks, sensors, errors, or a driver that fails."""

from __future__ import annotations

from collections.abc import Iterable

from amdgpu_discovery.recording.profile import SimulatedGpu
from amdgpu_simulator.hosts.placement import PlacedHost
from amdgpu_simulator.hosts.tree import Link, Pipe, Tree

# System memory that a GPU may use if its model does not say: the kernel allows half of it or more.
GTT_BYTES = 64 << 30
SENSORS = "hwmon/"
HWMON_CLASS = "/sys/class/hwmon"
FAILING = ("[EIO]", "[ENODEV]")
# No process has memory at address 0 (mem_rw of fs/proc/base.c). No file that all users may read gives ENODEV.
ENDS_IN_EIO = "/proc/self/mem"


def add_idle(tree: Tree, placed: PlacedHost) -> None:
    """Add what every GPU shows while it has no work, and where programs look for its sensors."""
    for number, gpu in enumerate(placed.gpus):
        attributes = _idle(gpu.gpu, number)
        tree.add_attributes(gpu.path, attributes)
        _link_sensors(tree, gpu.path, attributes)


def add_health(tree: Tree, placed: PlacedHost) -> None:
    """Add the health attributes of every GPU, or the way in which its driver fails."""
    for gpu in placed.gpus:
        for name, text in gpu.gpu.health.items():
            _add_attribute(tree, f"{gpu.path}/{name}", text)
        _link_sensors(tree, gpu.path, gpu.gpu.health)


def _idle(gpu: SimulatedGpu, number: int) -> dict[str, object]:
    """Return attributes by name; the sensors of each GPU are in a directory with its own number."""
    if not gpu.model.idle:
        return {}
    has_own = any(name.startswith(SENSORS) for name in gpu.health)
    texts = {name: text for name, text in gpu.model.idle.items() if not (has_own and name.startswith(SENSORS))}
    placed = {name.replace(SENSORS, f"{SENSORS}hwmon{number}/", 1): text for name, text in texts.items()}
    return {"mem_info_gtt_total": gpu.model.kfd_bytes or GTT_BYTES, **gpu.model.attributes, **placed}


def _add_attribute(tree: Tree, path: str, text: str) -> None:
    if text == "[ETIMEDOUT]":
        tree.entries[path] = Pipe()
    elif text in FAILING:
        tree.entries[path] = Link(target=ENDS_IN_EIO)
    else:
        tree.add_file(path, f"{text}\n".encode())


def _link_sensors(tree: Tree, function: str, names: Iterable[str]) -> None:
    """Add the links of the directories of sensors among attributes' names."""
    parts = [name.split("/") for name in names if name.startswith(SENSORS)]
    for directory in sorted({each[1] for each in parts if len(each) > 2}):
        path = f"{function}/{SENSORS}{directory}"
        tree.add_link(f"{path}/device", function)
        tree.add_link(f"{path}/subsystem", HWMON_CLASS)
        tree.add_link(f"{HWMON_CLASS}/{directory}", path)
