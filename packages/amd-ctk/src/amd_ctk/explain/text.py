"""An explanation as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from amd_ctk.explain.explanation import Explanation
from amd_ctk.explain.host_nodes import DRI
from amd_ctk.explain.plan import Plan
from amd_device_spec.oci import OPEN_MODE
from amdgpu_discovery.command_line.listing import format_columns, to_json
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.gpu import MEBIBYTE, GpuLocation
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.usage.memory_limits import LIMIT_FILE

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
            "gpus": _gpu_fields(explanation) if explanation.starts else [],
            "refusals": [str(error) for error in plan.refusals],
            "problems": list(explanation.problems),
            "notes": list(explanation.notes),
            "spec": plan.spec,
        }
    )


def _gpu_fields(explanation: Explanation) -> list[dict[str, object]]:
    plan = explanation.plan
    indexes = _hip_indexes(explanation)
    granted = {gpu.number for gpu in plan.granted.gpus}
    return [
        {
            "number": gpu.number,
            "given_by": "runtime" if gpu.number in granted else "engine",
            "render_node": gpu.render_path,
            "card_node": gpu.card_path,
            "hip": indexes.get(gpu.number),
            "unique_id": _unique_id(gpu) or None,
            "pci_address": str(gpu.pci_address),
            "partition_rank": gpu.partition_rank,
        }
        for gpu in plan.gpus
    ]


def _format_gpus(explanation: Explanation) -> list[str]:
    gpus = explanation.plan.gpus
    if not gpus:
        return ["The container gets no GPU"]
    # In the order of HIP, then those that HIP does not see.
    indexes = _hip_indexes(explanation)
    paths = _find_paths(explanation)
    in_order = [*explanation.hip_gpus, *(gpu for gpu in gpus if gpu.number not in indexes)]
    rows = (_row(gpu, indexes.get(gpu.number), paths) for gpu in in_order)
    return format_columns([HEADER, *rows]).split("\n")


def _row(gpu: GpuLocation, index: int | None, paths: Mapping[int, str]) -> tuple[str, ...]:
    partition = f":p{gpu.partition_rank}" if gpu.partition_total > 1 else ""
    return (
        str(gpu.number),
        _names_inside(gpu, paths),
        "-" if index is None else str(index),
        _unique_id(gpu) or "N/A",
        f"{gpu.pci_address}{partition}",
    )


def _names_inside(gpu: GpuLocation, paths: Mapping[int, str]) -> str:
    """Return the nodes of a GPU under their names in the container, "no node" if only a rule gives it."""
    minors = (gpu.render_minor, gpu.card_minor)
    names = [paths[minor] for minor in minors if minor is not None and minor in paths]
    return " ".join([*names[:1], *(name.removeprefix(f"{DRI}/") for name in names[1:])]) or "no node"


def _find_paths(explanation: Explanation) -> dict[int, str]:
    """Return the paths of DRM nodes in the container, by their minor numbers."""
    plan = explanation.plan
    devices = (plan.spec.get("linux") or {}).get("devices") or ()
    # A privileged container also has nodes that the runtime made for user namespaces; those below /dev/dri count.
    drm = [device for device in devices if device.get("major") == DRM_MAJOR and type(device.get("minor")) is int]
    paths = [(device["minor"], str(device.get("path"))) for device in drm]
    listed = dict(sorted(paths, key=lambda found: found[1].startswith(f"{DRI}/")))
    # For a user namespace, the runtime binds the nodes, and the spec does not list them.
    return explanation.volume_paths | listed | {node.minor: node.path for node in plan.nodes if node.major == DRM_MAJOR}


def _hip_indexes(explanation: Explanation) -> dict[int, int]:
    """Return HIP's index of each GPU that HIP sees, by the GPU's number."""
    return {gpu.number: index for index, gpu in enumerate(explanation.hip_gpus)}


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
