"""The edits to an OCI runtime spec that give a container its GPUs.

Edits change the JSON in place, so fields that this project does not know survive. An annotation lists what was added,
devices and rules in a short form. If the same spec comes again (`create` after a failed `create`), its edits are
replaced and not repeated. Source: OCI runtime-spec, config-linux.md.
"""

from __future__ import annotations

from amdgpu_discovery.errors import RequestError, SpecError
from amdgpu_discovery.untrusted.plain_json import dumps
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import DeviceNode

ANNOTATION = "com.amd.container-toolkit.edits"

# Read and write. Engines allow creating nodes (`m`) for every number; only opening them matters.
ACCESS = "rw"

# `podman run --group-add keep-groups`: the container keeps the groups of the user who starts it. Only crun knows it.
KEEP_GROUPS = "run.oci.keep_original_groups"

# How much of its GPU's memory the container may use, in units of 2^20 bytes.
VRAM_LIMIT = "AMD_VRAM_LIMIT_MB"
# The memory of the GPU, and the fraction of it that frameworks may allocate: the limit without the headroom.
VRAM_TOTAL = "AMD_VRAM_TOTAL_MB"
VRAM_FRACTION = "AMD_VRAM_FRACTION"
VRAM_VARIABLES = (VRAM_LIMIT, VRAM_TOTAL, VRAM_FRACTION)

# Where a spec has each section of the edits.
LOCATIONS = {
    "devices": ("linux", "devices"),
    "mounts": ("mounts",),
    "rules": ("linux", "resources", "devices"),
    "gids": ("process", "user", "additionalGids"),
    "poststop": ("hooks", "poststop"),
    "env": ("process", "env"),
}

# Where the runtime makes the nodes that it binds; on a simulated host, below its root. Not in /run, which systemd
# mounts without devices.
PRIVATE_NODES = "/dev/amd-container-toolkit"

# Every user in the container may open its GPUs. The device cgroup decides which GPUs these are, and a user inside
# cannot be in the host's render group (docs/explanation/access.md).
OPEN_MODE = 0o666

# A user namespace shows this id for groups it does not map (/proc/sys/kernel/overflowgid). No process can join it.
OVERFLOW_GID = 65534


class Edits(Value):
    """The additions to the OCI spec of a container.

    Attributes:
        devices: Entries of `linux.devices`.
        sources: The host's node to bind at the path of a device, for devices that are not made.
        rules: Entries of `linux.resources.devices`.
        gids: Groups to which the container's process is added.
        poststop: Hooks that run after the container has ended.
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

    With `keep_host_mode` the nodes keep the host's permission bits and the process joins their groups instead.
    `sources` are host nodes to bind in place of some devices, for a container with its own user namespace. `vram_mb` is
    how much memory of the GPU the container is told to use, in MiB; 0 means all. `vram_total_mb` is the memory of the
    GPU, and `vram_headroom_mb` is the part of `vram_mb` that the fraction leaves to ROCm itself.
    """
    nodes = list(nodes)
    return Edits(
        devices=[_device(node, node.mode if keep_host_mode else OPEN_MODE) for node in nodes],
        sources=sources or {},
        rules=[rule_of(node.major, node.minor) for node in nodes],
        gids=sorted({node.gid for node in nodes} - {0, OVERFLOW_GID}) if keep_host_mode else [],
        poststop=list(poststop),
        env=memory_variables(vram_mb, vram_total_mb, vram_headroom_mb) if vram_mb else [],
    )


def memory_variables(vram_mb: int, total_mb: int, headroom_mb: int) -> list[str]:
    """Return the variables that tell a program how much memory of a GPU it may use, as `NAME=VALUE`."""
    limit = [f"{VRAM_LIMIT}={vram_mb}"]
    if total_mb < vram_mb:
        return limit
    # Round down, so that the fraction never exceeds the reservation.
    parts = max(0, vram_mb - headroom_mb) * 10000 // total_mb
    return [*limit, f"{VRAM_TOTAL}={total_mb}", f"{VRAM_FRACTION}={parts // 10000}.{parts % 10000:04}"]


def maker_for(spec: dict[str, Any]) -> str:
    """Return which of runc and crun a container needs, whatever the usual one is; "" if either will do."""
    return "crun" if (spec.get("annotations") or {}).get(KEEP_GROUPS) == "1" else ""


def is_edited(spec: dict[str, Any]) -> bool:
    """Return whether a spec already has edits, as it does when an engine creates its container again."""
    annotations = spec.get("annotations")
    return isinstance(annotations, dict) and ANNOTATION in annotations


def add_edits(spec: dict[str, Any], edits: Edits) -> bool:
    """Add edits to a spec that has none; return whether the spec changed.

    Entries that the spec already has, by path or by number, stay as they are and are not listed in the annotation.
    Raises SpecError if the spec has other content in these places, and RequestError if another device is at one of the
    paths.
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
    """Return a device as the annotation lists it: path, type, number, mode and owner, so that no two look alike."""
    path, node_type, number = device.get("path"), device.get("type"), numbers_of(device)
    return f"{path} {node_type} {number} {device.get('fileMode')} {device.get('uid')} {device.get('gid')}"


def mount_of(destination: str, source: str) -> dict[str, Any]:
    """Return the mount that binds a node of the host. With more options, runtimes would mount it a second time."""
    return {"destination": destination, "type": "bind", "source": source, "options": ["bind", "rprivate"]}


def rule_of(major: int, minor: int) -> dict[str, Any]:
    """Return the device cgroup rule that lets a container use a device with this number."""
    return {"allow": True, "type": "c", "major": major, "minor": minor, "access": ACCESS}


def numbers_of(rule: dict[str, Any]) -> str:
    """Return the device number of a rule or a device as `major:minor`."""
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
    """Add the missing devices, some of them as mounts; return both lists."""
    missing = _missing_devices(_list(spec, LOCATIONS["devices"], of=dict), edits.devices) if edits.devices else []
    made = [device for device in missing if device["path"] not in edits.sources]
    bound = [
        mount_of(device["path"], edits.sources[device["path"]]) for device in missing if device["path"] in edits.sources
    ]
    return _add(spec, "devices", made, missing=_all), _add(spec, "mounts", bound, missing=_all)


def _add(spec: dict[str, Any], section: str, wanted: list[Any], *, missing: Any) -> list[Any]:
    """Append to a section those of `wanted` that `missing` returns; return what was appended."""
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
    """Return the rules missing after the last rule that denies, which may revoke all rules before it."""
    last = next((position for position in reversed(range(len(present))) if not present[position].get("allow")), 0)
    standing = {numbers_of(rule) for rule in present[last:] if _allows_use(rule)}
    return [rule for rule in wanted if numbers_of(rule) not in standing]


def _allows_use(rule: dict[str, Any]) -> bool:
    """Return whether a rule allows reading and writing of at least one character device."""
    return rule.get("allow") is True and rule.get("type") == "c" and set(ACCESS) <= set(str(rule.get("access")))


def _list(spec: dict[str, Any], spec_path: tuple[str, ...], *, of: type) -> list[Any]:
    """Return the list at a path of the spec, created if missing; SpecError if the path has anything else."""
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
