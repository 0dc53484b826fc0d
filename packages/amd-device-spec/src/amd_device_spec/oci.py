"""The edits to an OCI runtime spec that give a container its GPUs.

Edits are made on the JSON as it stands: what this project does not know survives. What was added is listed in an
annotation, devices and rules in short, so that a spec that comes again (`create` after a failed `create`) is
edited again and not twice.
Source: OCI runtime-spec, config-linux.md.
"""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError, SpecError
from amdgpu_discovery.plain_json import dumps
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import DeviceNode

ANNOTATION = "com.amd.container-toolkit.edits"

# Read and write. Engines allow the making of nodes (`m`) for every number; opening them is what counts.
ACCESS = "rw"

# Tells a container how much of its GPU's memory is its own, in units of 2^20 bytes.
VRAM_LIMIT = "AMD_VRAM_LIMIT_MB"
# And how much the GPU has, and the part of that which frameworks may allocate: the limit without the headroom.
VRAM_TOTAL = "AMD_VRAM_TOTAL_MB"
VRAM_FRACTION = "AMD_VRAM_FRACTION"
VRAM_VARIABLES = (VRAM_LIMIT, VRAM_TOTAL, VRAM_FRACTION)

# Where the edits of each section stand in a spec.
LOCATIONS = {
    "devices": ("linux", "devices"),
    "mounts": ("mounts",),
    "rules": ("linux", "resources", "devices"),
    "gids": ("process", "user", "additionalGids"),
    "poststop": ("hooks", "poststop"),
    "env": ("process", "env"),
}

# Where the runtime makes the nodes that it binds, on a simulated host below its root. Not in /run, which systemd mounts
# without devices.
PRIVATE_NODES = "/dev/amd-container-toolkit"

# Every user in the container may open its GPUs: the device cgroup decides which these are, and a user inside cannot
# be in the host's render group (docs/explanation/access.md).
OPEN_MODE = 0o666

# Where a user namespace shows a group that it does not map (/proc/sys/kernel/overflowgid); no process can join it.
OVERFLOW_GID = 65534


class Edits(Value):
    """What a container gets, as it is written into its OCI spec.

    Attributes:
        devices: Entries of `linux.devices`.
        sources: By the path of a device: the node of the host that is bound there, where no device is made.
        rules: Entries of `linux.resources.devices`.
        gids: Groups that the container's process is put into.
        poststop: Hooks that run when the container is gone.
        env: Variables for the container, `NAME=value`.
    """

    devices: list[dict[str, Any]]
    sources: Mapping[str, str]
    rules: list[dict[str, Any]]
    gids: list[int]
    poststop: list[dict[str, Any]]
    env: list[str]


def build_edits(
    nodes: Iterable[DeviceNode],
    *,
    keep_host_mode: bool = False,
    sources: Mapping[str, str] | None = None,
    poststop: Sequence[dict[str, Any]] = (),
    vram_mb: int = 0,
    vram_total_mb: int = 0,
    vram_headroom_mb: int = 0,
) -> Edits:
    """Return the edits that let a container use these nodes; `poststop` are hooks in OCI's form.

    With `keep_host_mode` the nodes keep the host's permission bits and the process is put into their groups instead.
    `sources` are nodes of the host that are bound instead of some, for a container with a user namespace of its own.
    `vram_mb` is how much of the GPU's memory it is told to use, in MiB, 0 for all; `vram_total_mb` is how much the GPU
    has, and `vram_headroom_mb` how much of `vram_mb` the fraction leaves to ROCm itself.
    """
    nodes = list(nodes)
    return Edits(
        devices=[_device(node, node.mode if keep_host_mode else OPEN_MODE) for node in nodes],
        sources=sources or {},
        rules=[rule_of(node.major, node.minor) for node in nodes],
        gids=sorted({node.gid for node in nodes} - {0, OVERFLOW_GID}) if keep_host_mode else [],
        poststop=list(poststop),
        env=_memory_variables(vram_mb, vram_total_mb, vram_headroom_mb) if vram_mb else [],
    )


def _memory_variables(vram_mb: int, total_mb: int, headroom_mb: int) -> list[str]:
    limit = [f"{VRAM_LIMIT}={vram_mb}"]
    if total_mb < vram_mb:
        return limit
    # Rounded down, so that the fraction is never more than what was reserved.
    parts = max(0, vram_mb - headroom_mb) * 10000 // total_mb
    return [*limit, f"{VRAM_TOTAL}={total_mb}", f"{VRAM_FRACTION}={parts // 10000}.{parts % 10000:04}"]


def is_edited(spec: dict[str, Any]) -> bool:
    """Return whether a spec has edits of an earlier time, as it does when an engine makes its container once more."""
    annotations = spec.get("annotations")
    return isinstance(annotations, dict) and ANNOTATION in annotations


def add_edits(spec: dict[str, Any], edits: Edits) -> bool:
    """Put edits into a spec that has none of an earlier time; return whether the spec changed.

    What the spec has already, by path or by number, is kept as it is and not listed in the annotation. SpecError where
    the spec has something else where these things belong, RequestError where it has another device at one of the paths.
    """
    devices, mounts = _add_nodes(spec, edits)
    rules = _add(spec, "rules", edits.rules, missing=_missing_rules)
    listed = {
        "devices": [summary_of(device) for device in devices],
        "mounts": [f"{mount['destination']} {mount['source']}" for mount in mounts],
        "rules": [numbers_of(rule) for rule in rules],
        "gids": _add(spec, "gids", edits.gids, missing=_not_present),
        "poststop": _add(spec, "poststop", edits.poststop, missing=_not_present),
        "env": _add(spec, "env", edits.env, missing=_all),
    }
    if not any(listed.values()):
        return False
    annotations = _object(spec, ("annotations",))
    annotations[ANNOTATION] = dumps({section: new for section, new in listed.items() if new}).decode()
    return True


def summary_of(device: dict[str, Any]) -> str:
    """Return a device as the annotation lists it: path, number, mode and owner; no two that differ look alike."""
    path, node_type, number = device.get("path"), device.get("type"), numbers_of(device)
    return f"{path} {node_type} {number} {device.get('fileMode')} {device.get('uid')} {device.get('gid')}"


def mount_of(destination: str, source: str) -> dict[str, Any]:
    """Return the mount that binds a node of the host; with options beyond these, runtimes would mount it again."""
    return {"destination": destination, "type": "bind", "source": source, "options": ["bind", "rprivate"]}


def rule_of(major: int, minor: int) -> dict[str, Any]:
    """Return the rule of the device cgroup by which a container may use a device of this number."""
    return {"allow": True, "type": "c", "major": major, "minor": minor, "access": ACCESS}


def numbers_of(rule: dict[str, Any]) -> str:
    """Return the device number of a rule or a device, `major:minor`."""
    # As text, so that values of any type can be compared.
    return f"{rule.get('major')}:{rule.get('minor')}"


def _device(node: DeviceNode, mode: int) -> dict[str, Any]:
    return {
        "path": node.path,
        "type": "c",
        "major": node.major,
        "minor": node.minor,
        "fileMode": mode,
        "uid": node.uid,
        "gid": node.gid,
    }


def _add_nodes(spec: dict[str, Any], edits: Edits) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Add the devices that are missing, some of them as mounts; return both."""
    missing = _missing_devices(_list(spec, LOCATIONS["devices"], of=dict), edits.devices) if edits.devices else []
    made = [device for device in missing if device["path"] not in edits.sources]
    bound = [
        mount_of(device["path"], edits.sources[device["path"]]) for device in missing if device["path"] in edits.sources
    ]
    return _add(spec, "devices", made, missing=_all), _add(spec, "mounts", bound, missing=_all)


def _add(spec: dict[str, Any], section: str, wanted: list[Any], *, missing: Any) -> list[Any]:
    """Append of `wanted` what `missing` finds missing in the list that is there; return what was appended."""
    if not wanted:
        return []
    present = _list(spec, LOCATIONS[section], of=type(wanted[0]))
    new: list[Any] = missing(present, wanted)
    present += new
    return new


def _all(_: list[Any], wanted: list[Any]) -> list[Any]:
    return wanted


def _not_present(present: list[Any], wanted: list[Any]) -> list[Any]:
    return [entry for entry in wanted if entry not in present]


def _missing_devices(present: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if not present:
        return wanted
    by_path = {str(device.get("path")): device for device in reversed(present)}
    return [device for device in wanted if not _is_same_device(by_path.get(device["path"]), device)]


def _is_same_device(old: dict[str, Any] | None, new: dict[str, Any]) -> bool:
    if old is None:
        return False
    if (old.get("major"), old.get("minor")) != (new["major"], new["minor"]):
        raise RequestError(
            f"the container has device {old.get('major')}:{old.get('minor')} at {new['path']},"
            f" where {new['major']}:{new['minor']} belongs",
            hint="leave out the --device that puts it there",
        )
    return True


def _missing_rules(present: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rules that are not there behind the last one that denies, which may take back what stands before."""
    last = next((position for position in reversed(range(len(present))) if not present[position].get("allow")), 0)
    standing = {numbers_of(rule) for rule in present[last:] if _allows_use(rule)}
    return [rule for rule in wanted if numbers_of(rule) not in standing]


def _allows_use(rule: dict[str, Any]) -> bool:
    """Return whether a rule allows reading and writing of one character device or more."""
    return rule.get("allow") is True and rule.get("type") == "c" and set(ACCESS) <= set(str(rule.get("access")))


def _list(spec: dict[str, Any], spec_path: tuple[str, ...], *, of: type) -> list[Any]:
    """Return the list at a path of the spec, made if there is none; SpecError where there is something else."""
    parent = _object(spec, spec_path[:-1])
    if parent.get(spec_path[-1]) is None:
        parent[spec_path[-1]] = []
    found = parent[spec_path[-1]]
    if not isinstance(found, list) or not all(isinstance(entry, of) for entry in found):
        raise SpecError(f"its '{'.'.join(spec_path)}' is not a list of the expected type")
    return found


def _object(spec: dict[str, Any], spec_path: tuple[str, ...]) -> dict[str, Any]:
    found = spec
    for depth, key in enumerate(spec_path, 1):
        if found.get(key) is None:
            found[key] = {}
        found = found[key]
        if not isinstance(found, dict):
            raise SpecError(f"its '{'.'.join(spec_path[:depth])}' is not an object")
    return found
