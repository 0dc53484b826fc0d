"""Checks whether a CDI spec still matches the GPUs of a machine."""

from __future__ import annotations

from amd_device_spec.cdi import ALL, ALL_NAMES, names_of
from amd_device_spec.cdi.validate import Problem, printable
from amdgpu_discovery.choices.selection import is_identity
from amdgpu_discovery.driver.device_nodes import KFD_PATH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from amd_device_spec.cdi.validate import Location
    from amdgpu_discovery.gpu import DeviceNode, Gpu

DRM_DIRECTORY = "/dev/dri/"


def host_problems(
    spec: dict[str, Any],
    gpus: Sequence[Gpu],
    nodes: Sequence[DeviceNode],
    *,
    hooks: Sequence[dict[str, Any]] = (),
) -> Iterator[Problem]:
    """Yield the contradictions between a well-formed CDI `spec` and a machine.

    `gpus` are those the spec should define, and `nodes` come from `find_device_nodes`. The spec must contain all of
    `hooks`, which are in CDI's form. Other content of a spec (mounts, devices with other names) is not checked.
    """
    named = names_of(gpus, ALL_NAMES, by_model=True)
    node_by_path = {node.path: node for node in nodes}
    for position, device in enumerate(spec["devices"]):
        location = ("devices", position)
        if device["name"] in named:
            yield from _grant_problems(device, location, named[device["name"]], node_by_path)
        elif _is_gpu_name(device["name"]):
            yield Problem(location=(*location, "name"), message=f"{device['name']!r} names no GPU of this machine")
    yield from _missing_gpus(spec, gpus)
    yield from _missing_hooks(spec, hooks)


def _is_gpu_name(name: str) -> bool:
    return name == ALL or name.isdecimal() or is_identity(name)


def _grant_problems(
    device: dict[str, Any], location: Location, gpus: Sequence[Gpu], node_by_path: Mapping[str, DeviceNode]
) -> Iterator[Problem]:
    allowed = {path for gpu in gpus for path in (gpu.card_path, gpu.render_path)} | {KFD_PATH}
    location = (*location, "containerEdits", "deviceNodes")
    listed = device["containerEdits"].get("deviceNodes", [])
    for position, node in enumerate(listed):
        path = node.get("hostPath") or node["path"]
        if path not in allowed:
            if path.startswith(DRM_DIRECTORY):
                message = f"{printable(path)} is not a node of {_subject(device['name'])}"
                yield Problem(location=(*location, position, "path"), message=message)
        elif path not in node_by_path:
            yield Problem(location=(*location, position, "path"), message=f"{path} does not exist")
        else:
            yield from _number_problems(node, node_by_path[path], (*location, position))
    present = {node.get("hostPath") or node["path"] for node in listed}
    for path in (*(gpu.render_path for gpu in gpus), KFD_PATH):
        if path not in present:
            yield Problem(location=location, message=f"{path} is missing")


def _subject(name: str) -> str:
    return f"GPU {name}" if name.isdecimal() else f"what {name} names"


def _number_problems(listed: dict[str, Any], node: DeviceNode, location: Location) -> Iterator[Problem]:
    # Engines look up the numbers that a spec leaves out.
    for field, actual in (("major", node.major), ("minor", node.minor)):
        if listed.get(field, actual) != actual:
            yield Problem(location=(*location, field), message=f"{listed[field]}, but that of {node.path} is {actual}")


def _missing_gpus(spec: dict[str, Any], gpus: Sequence[Gpu]) -> Iterator[Problem]:
    names = {device["name"] for device in spec["devices"]}
    for gpu in gpus:
        if str(gpu.number) not in names:
            yield Problem(location=("devices",), message=f"GPU {gpu.number} of this machine is missing")


def _missing_hooks(spec: dict[str, Any], hooks: Sequence[dict[str, Any]]) -> Iterator[Problem]:
    present = spec.get("containerEdits", {}).get("hooks", [])
    for hook in hooks:
        if hook not in present:
            yield Problem(
                location=("containerEdits",), message=f"the {hook['hookName']} hook of the toolkit is missing"
            )
