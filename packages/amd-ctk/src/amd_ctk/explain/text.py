"""An explanation as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from amd_ctk.explain.explanation import Explanation
from amd_ctk.explain.host_nodes import DRI
from amd_ctk.explain.plan import Plan
from amd_ctk.listing import format_columns, to_json
from amd_device_spec.memory_limit import LIMIT_FILE
from amd_device_spec.oci import OPEN_MODE
from amdgpu_discovery.device_nodes import KFD_PATH
from amdgpu_discovery.drm import DRM_MAJOR
from amdgpu_discovery.gpu import MEBIBYTE, GpuLocation
from amdgpu_discovery.plain_text import printable

# The version of the format of `--json`.
VERSION = 1
HEADER = ("GPU", "in the container", "HIP", "unique id", "on the host")


def format_explanation(explanation: Explanation) -> str:
    """Return the meaning of each variable, the table of GPUs, the changes, and what prevents the start."""
    width = max((len(line.subject) for line in explanation.lines), default=0)
    lines = [f"{line.subject:<{width}}  {line.words}" for line in explanation.lines]
    if explanation.unknown:
        lines += [f"Not known: which GPUs the container gets; {explanation.unknown}"]
    elif explanation.starts:
        lines += _format_gpus(explanation)
        changes = list(_changes(explanation.plan))
        lines += ["; ".join([*changes, "nothing else is changed"]) if changes else "config.json is not changed"]
    else:
        lines += ["The container does not start:"]
        lines += [f"  {line}" for error in explanation.plan.refusals for line in str(error).splitlines()]
    lines += [f"problem: {problem}" for problem in explanation.problems]
    lines += [f"note: {note}" for note in explanation.notes]
    # Some of the text comes from an image or a Compose file.
    return "\n".join(map(printable, lines))


def format_json(explanation: Explanation) -> str:
    """Return everything as JSON, as schema/explain.json describes it."""
    plan = explanation.plan
    return to_json(
        {
            "version": VERSION,
            "starts": explanation.starts,
            "unknown": explanation.unknown,
            "variables": [line.as_dict() for line in explanation.lines],
            "gpus": [_gpu_fields(gpu, explanation) for gpu in plan.gpus] if explanation.starts else [],
            "refusals": [str(error) for error in plan.refusals],
            "problems": list(explanation.problems),
            "notes": list(explanation.notes),
            "spec": plan.spec,
        }
    )


def _gpu_fields(gpu: GpuLocation, explanation: Explanation) -> dict[str, object]:
    return {
        "number": gpu.number,
        "given_by": "runtime" if gpu in explanation.plan.granted.gpus else "engine",
        "render_node": gpu.render_path,
        "card_node": gpu.card_path,
        "hip": _hip_index(gpu, explanation),
        "unique_id": _unique_id(gpu) or None,
        "pci_address": str(gpu.pci_address),
        "partition_rank": gpu.partition_rank,
    }


def _format_gpus(explanation: Explanation) -> list[str]:
    gpus = explanation.plan.gpus
    if not gpus:
        return ["The container gets no GPU"]
    # In the order of HIP, then those that HIP does not see.
    seen = explanation.hip_gpus
    in_order = [*seen, *(gpu for gpu in gpus if gpu not in seen)]
    return format_columns([HEADER, *(_row(gpu, explanation) for gpu in in_order)]).split("\n")


def _row(gpu: GpuLocation, explanation: Explanation) -> tuple[str, ...]:
    index = _hip_index(gpu, explanation)
    partition = f":p{gpu.partition_rank}" if gpu.partition_total > 1 else ""
    return (
        str(gpu.number),
        _names_inside(gpu, explanation.plan),
        "-" if index is None else str(index),
        _unique_id(gpu) or "N/A",
        f"{gpu.pci_address}{partition}",
    )


def _names_inside(gpu: GpuLocation, plan: Plan) -> str:
    """Return the nodes of a GPU under their names in the container, "no node" if only a rule gives it."""
    devices = (plan.spec.get("linux") or {}).get("devices") or ()
    # A privileged container also has nodes that the runtime made for user namespaces; those below /dev/dri count.
    drm = sorted((device for device in devices if device.get("major") == DRM_MAJOR), key=_is_below_dri)
    listed = {device.get("minor"): device.get("path") for device in drm}
    # For a user namespace, the runtime binds the nodes, and the spec does not list them.
    paths = listed | {node.minor: node.path for node in plan.nodes if node.major == DRM_MAJOR}
    names = [paths[minor] for minor in (gpu.render_minor, gpu.card_minor) if minor in paths]
    return " ".join([*names[:1], *(name.removeprefix(f"{DRI}/") for name in names[1:])]) or "no node"


def _is_below_dri(device: dict[str, Any]) -> bool:
    return str(device.get("path")).startswith(f"{DRI}/")


def _hip_index(gpu: GpuLocation, explanation: Explanation) -> int | None:
    return explanation.hip_gpus.index(gpu) if gpu in explanation.hip_gpus else None


def _unique_id(gpu: GpuLocation) -> str:
    return f"GPU-{gpu.unique_id:016x}" if gpu.unique_id else ""


def _memory_limits(plan: Plan) -> Iterator[str]:
    """Yield the limit of each board's memory that the kernel enforces."""
    unified = ((plan.spec.get("linux") or {}).get("resources") or {}).get("unified") or {}
    for line in str(unified.get(LIMIT_FILE, "")).splitlines():
        region, _, size = line.partition(" ")
        amount = f"{int(size) // MEBIBYTE} MiB" if size.isdecimal() else size
        yield f"{LIMIT_FILE} {region} {amount}"


def _changes(plan: Plan) -> Iterator[str]:
    if plan.edits is None:
        return
    kfd = next((node for node in plan.nodes if node.path == KFD_PATH), None)
    if kfd:
        mode = next((device["fileMode"] for device in plan.edits.devices if device["path"] == KFD_PATH), OPEN_MODE)
        yield f"{KFD_PATH} {kfd.major}:{kfd.minor} mode {mode:04o}"
    if plan.edits.sources:
        yield "nodes that everyone may open are bound, for a container with a user namespace"
    if plan.edits.rules:
        yield "rules " + ", ".join(f"c {rule['major']}:{rule['minor']} {rule['access']}" for rule in plan.edits.rules)
    if plan.edits.gids:
        yield f"groups {', '.join(map(str, plan.edits.gids))}"
    yield from plan.edits.env
    yield from _memory_limits(plan)
    if plan.edits.poststop:
        yield "hook poststop (tracker on)"
