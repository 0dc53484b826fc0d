"""Describes GPUs as a CDI spec, which container engines read for options such as `--device amd.com/gpu=0`."""

from __future__ import annotations

from amd_device_spec import cdi as cdi_names
from amd_device_spec.cdi.version import VERSIONS, needed_version
from amd_device_spec.oci import ACCESS, OPEN_MODE
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.errors import SpecError
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import DeviceNode, Gpu

    HooksByMoment = Mapping[str, Sequence[dict[str, Any]]]

ANNOTATION_PREFIX = "gpu.amd.com"


class CdiOptions(Value):
    """The user's options for a CDI spec; docs/reference/cdi.md describes them.

    Attributes:
        vendor: Vendor of the CDI kind.
        device_class: Class of the CDI kind.
        name_strategy: The names of GPUs beside their numbers: `index` (none), `uuid`, `pci` or `all-of-them`.
        with_all: Whether the spec has a device `all`.
        request: Which GPUs, in the grammar of requests.
        annotations: Whether annotations describe the devices; needs CDI 0.6.0.
        additional_gids: Whether devices add the groups of their nodes; needs CDI 0.7.0.
        by_model: Whether a model (`MI210`) and a target (`gfx90a`) are devices too, with all GPUs of that kind.
        spec_version: CDI version to write; "" for the lowest that can hold the content.
    """

    vendor: str = cdi_names.VENDOR
    device_class: str = cdi_names.DEVICE_CLASS
    name_strategy: str = cdi_names.ALL_NAMES
    with_all: bool = True
    request: str = cdi_names.ALL
    annotations: bool = False
    additional_gids: bool = False
    by_model: bool = False
    spec_version: str = ""

    @property
    def kind(self) -> str:
        """Return the part of a device's qualified name before the `=`."""
        return f"{self.vendor}/{self.device_class}"


def check_options(options: CdiOptions) -> None:
    """Raise SpecError for options that some engines, or all of them, cannot handle."""
    if problem := cdi_names.label_problem(options.vendor):
        raise SpecError(f"the vendor {options.vendor!r} {problem}", hint="as in --vendor=example.com")
    if problem := cdi_names.label_problem(options.device_class):
        raise SpecError(f"the class {options.device_class!r} {problem}", hint="as in --class=gpu")
    if options.spec_version and options.spec_version not in VERSIONS:
        raise SpecError(f"CDI has no version {options.spec_version}", hint=f"it has {', '.join(VERSIONS)}")


def build_cdi_spec(
    gpus: Sequence[Gpu],
    nodes: Sequence[DeviceNode],
    options: CdiOptions,
    *,
    hooks: HooksByMoment | None = None,
    groups: Mapping[str, Sequence[Gpu]] | None = None,
    keep_host_mode: bool = False,
) -> dict[str, Any]:
    """Return the CDI spec that offers `gpus`; `nodes` come from `find_device_nodes`.

    `hooks` maps moments of a container's life to OCI hooks. They run once for each container, however many devices it
    has. `groups` maps names to GPUs, for devices `group-NAME`. Every user of a container can open the nodes unless
    `keep_host_mode` is set. Raises SpecError if the chosen version cannot hold the content.
    """
    node_by_path = {node.path: node for node in nodes}
    named = cdi_names.names_of(gpus, options.name_strategy, with_all=options.with_all, by_model=options.by_model)
    named |= {f"{cdi_names.GROUP_PREFIX}{name}": list(members) for name, members in (groups or {}).items() if members}
    devices = [
        _device(name, behind, node_by_path, options, keep_host_mode=keep_host_mode) for name, behind in named.items()
    ]
    spec: dict[str, Any] = {"cdiVersion": "", "kind": options.kind, "devices": devices}
    if hooks:
        spec["containerEdits"] = {"hooks": build_cdi_hooks(hooks)}
    spec["cdiVersion"] = _choose_version(spec, options.spec_version)
    return spec


def build_cdi_hooks(hooks: HooksByMoment) -> list[dict[str, Any]]:
    """Return OCI hooks in the form that CDI uses."""
    return [{"hookName": moment, **hook} for moment, entries in hooks.items() for hook in entries]


def _device(
    name: str,
    gpus: Sequence[Gpu],
    node_by_path: Mapping[str, DeviceNode],
    options: CdiOptions,
    *,
    keep_host_mode: bool,
) -> dict[str, Any]:
    nodes = _nodes_of(gpus, node_by_path)
    edits: dict[str, Any] = {"deviceNodes": [_node(node, node.mode if keep_host_mode else OPEN_MODE) for node in nodes]}
    gids = sorted({node.gid for node in nodes if node.gid})
    if options.additional_gids and gids:
        edits["additionalGids"] = gids
    # The annotations describe a single GPU.
    if options.annotations and len(gpus) == 1:
        return {"name": name, "annotations": _annotations(gpus[0]), "containerEdits": edits}
    return {"name": name, "containerEdits": edits}


def _nodes_of(gpus: Sequence[Gpu], node_by_path: Mapping[str, DeviceNode]) -> list[DeviceNode]:
    """Return the card node, if any, and the render node of each GPU, then /dev/kfd once."""
    paths = [path for gpu in gpus for path in (gpu.card_path, gpu.render_path) if path in node_by_path]
    return [node_by_path[path] for path in (*paths, KFD_PATH) if path is not None]


def _node(node: DeviceNode, mode: int) -> dict[str, Any]:
    return {
        "path": node.path,
        "type": "c",
        "major": node.major,
        "minor": node.minor,
        "fileMode": mode,
        "permissions": ACCESS,
        # Without these, engines make the container's user the owner, and the host's mode would let that user in.
        "uid": node.uid,
        "gid": node.gid,
    }


def _annotations(gpu: Gpu) -> dict[str, str]:
    facts = {
        "gfx-target": gpu.gfx_target,
        "vram-bytes": gpu.vram_bytes,
        "compute-partition": gpu.compute_partition,
        "memory-partition": gpu.memory_partition,
        "partition-rank": gpu.partition_rank if gpu.partition_total > 1 else None,
        "numa-node": gpu.numa_node,
    }
    return {f"{ANNOTATION_PREFIX}/{key}": str(fact) for key, fact in facts.items() if fact not in (None, "")}


def _choose_version(spec: dict[str, Any], asked: str) -> str:
    need = needed_version(spec)
    if asked and VERSIONS.index(asked) < VERSIONS.index(need.version):
        raise SpecError(
            f"a CDI spec of version {asked} cannot hold {need.content}",
            hint=f"give --spec-version {need.version} or a later one, or leave it out",
        )
    return asked or need.version
