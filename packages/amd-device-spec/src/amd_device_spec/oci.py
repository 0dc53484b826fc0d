"""The edits to an OCI runtime spec that give a container its GPUs.

Edits are made on the JSON as it stands: what this project does not know survives. What was added is listed in an
annotation, so that a spec that comes again (`create` after a failed `create`) is edited anew and not twice.
Source: OCI runtime-spec, config-linux.md.
"""

from __future__ import annotations

from amd_device_spec.errors import SpecError
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.plain_json import dumps
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from amdgpu_discovery.gpu import DeviceNode

ANNOTATION = "com.amd.container-toolkit.edits"

# Read and write; `m` would let the container make nodes of its own with these numbers.
ACCESS = "rw"

# Everybody in the container may open its GPUs: the device cgroup decides which these are, and a user inside has no way
# to be in the host's render group (docs/explanation/access.md).
OPEN_MODE = 0o666

# Where a user namespace shows a group that it does not map (/proc/sys/kernel/overflowgid); nobody can be put into it.
OVERFLOW_GID = 65534

# Tells a container how much of its GPU's memory is its own, in units of 2^20 bytes.
VRAM_LIMIT = "AMD_VRAM_LIMIT_MB"

# Where each kind of edit stands in a spec.
PLACES = {
    "devices": ("linux", "devices"),
    "rules": ("linux", "resources", "devices"),
    "gids": ("process", "user", "additionalGids"),
    "poststop": ("hooks", "poststop"),
    "env": ("process", "env"),
}


class Edits(Value):
    """What a container gets, as it is written into its spec."""

    devices: list[dict[str, Any]]
    rules: list[dict[str, Any]]
    gids: list[int]
    poststop: list[dict[str, Any]]
    env: list[str]


def build_edits(
    nodes: Iterable[DeviceNode],
    *,
    keep_host_mode: bool = False,
    poststop: Sequence[dict[str, Any]] = (),
    vram_mb: int = 0,
) -> Edits:
    """Return the edits that let a container use these nodes.

    With `keep_host_mode` the nodes keep the host's permission bits and the process is put into their groups instead.
    `vram_mb` is how much of the GPU's memory it is told to use, 0 for all.
    """
    nodes = list(nodes)
    return Edits(
        devices=[_device(node, node.mode if keep_host_mode else OPEN_MODE) for node in nodes],
        rules=[_rule(node) for node in nodes],
        gids=sorted({node.gid for node in nodes} - {0, OVERFLOW_GID}) if keep_host_mode else [],
        poststop=list(poststop),
        env=[f"{VRAM_LIMIT}={vram_mb}"] if vram_mb else [],
    )


def apply_edits(spec: dict[str, Any], edits: Edits) -> bool:
    """Put edits into a spec in place of those of an earlier time; return whether the spec changed.

    What the spec has already, by path or by number, is kept as it is and not listed as ours. SpecError where the spec
    has something else in a place where these things belong, RequestError where it has another device at a path of ours.
    """
    removed = remove_edits(spec)
    added = {
        "devices": _add(spec, "devices", edits.devices, covers=_same_path),
        "rules": _add(spec, "rules", edits.rules, covers=_allows, since=_last_denial),
        "gids": _add(spec, "gids", edits.gids, covers=int.__eq__),
        "poststop": _add(spec, "poststop", edits.poststop, covers=dict.__eq__),
        "env": _add(spec, "env", edits.env, covers=str.__eq__, since=len),
    }
    if not any(added.values()):
        return removed
    _object(spec, ("annotations",))[ANNOTATION] = dumps({kind: new for kind, new in added.items() if new}).decode()
    return True


def remove_edits(spec: dict[str, Any]) -> bool:
    """Take out what an earlier `apply_edits` put in; return whether there was anything."""
    annotations = spec.get("annotations")
    if not isinstance(annotations, dict) or ANNOTATION not in annotations:
        return False
    # Most specs come once.
    from amd_device_spec.oci_removal import remove_listed

    remove_listed(spec, annotations.pop(ANNOTATION))
    return True


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


def _rule(node: DeviceNode) -> dict[str, Any]:
    return {"allow": True, "type": "c", "major": node.major, "minor": node.minor, "access": ACCESS}


def _add(spec: dict[str, Any], kind: str, wanted: Sequence[Any], *, covers: Any, since: Any = lambda _: 0) -> list[Any]:
    """Append what is not covered by an entry that is there, from the place `since` on; return what was appended."""
    if not wanted:
        return []
    present = _list(spec, PLACES[kind], of=type(wanted[0]))
    standing = present[since(present) :]
    new = [entry for entry in wanted if not (standing and any(covers(old, entry) for old in standing))]
    present += new
    return new


def _same_path(old: dict[str, Any], new: dict[str, Any]) -> bool:
    if old.get("path") != new["path"]:
        return False
    if (old.get("major"), old.get("minor")) != (new["major"], new["minor"]):
        raise RequestError(
            f"the container has device {old.get('major')}:{old.get('minor')} at {new['path']},"
            f" where {new['major']}:{new['minor']} belongs",
            hint="leave out the --device that puts it there",
        )
    return True


def _allows(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether a rule allows as much for exactly this device."""
    same_device = all(old.get(key) == new[key] for key in ("allow", "type", "major", "minor"))
    return same_device and set(ACCESS) <= set(str(old.get("access")))


def _last_denial(rules: list[dict[str, Any]]) -> int:
    """Return the place of the last rule that denies: it may take back what stands before it."""
    return next((place for place in reversed(range(len(rules))) if not rules[place].get("allow")), 0)


def _list(spec: dict[str, Any], place: tuple[str, ...], *, of: type) -> list[Any]:
    """Return the list at a place, made where there is none; SpecError where there is something else."""
    parent = _object(spec, place[:-1])
    if parent.get(place[-1]) is None:
        parent[place[-1]] = []
    found = parent[place[-1]]
    if not isinstance(found, list) or not all(isinstance(entry, of) for entry in found):
        raise SpecError(f"its '{'.'.join(place)}' is not a list of the kind it should be")
    return found


def _object(spec: dict[str, Any], place: tuple[str, ...]) -> dict[str, Any]:
    found = spec
    for depth, key in enumerate(place, 1):
        if found.get(key) is None:
            found[key] = {}
        found = found[key]
        if not isinstance(found, dict):
            raise SpecError(f"its '{'.'.join(place[:depth])}' is not an object")
    return found
