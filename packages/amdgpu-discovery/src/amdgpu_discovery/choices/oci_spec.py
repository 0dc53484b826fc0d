"""Reads a container's OCI spec (config.json) so that it means the same here and to the runtime that gets it.

runc (Go) ignores the case of keys and merges a key that is given twice. crun does neither: it takes the first of two,
and also reads numbers in quotes. A spec on which they disagree is refused, because it is unclear what its container
would get.

The functions below `read_spec` interpret a spec: the privileges of its container, the GPUs that it opens by itself, and
whether the container's processes die with its init. A `Grant` is what its request for GPUs gets.
"""

from __future__ import annotations

from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.errors import DriverUnavailable, FileError, GpusHidden, SpecError, reason
from amdgpu_discovery.files import read_file
from amdgpu_discovery.untrusted.plain_json import loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu, GpuLocation
    from amdgpu_discovery.host import Host

# A device number in a rule for all devices: Docker writes -1 for the * of `--device-cgroup-rule`, Podman no number.
ANY_NUMBER = (None, -1)
# Prefix of the variables in which an image lists its GPU requirements; docs/reference/requirements.md.
REQUIREMENT_PREFIX = "AMD_REQUIRE_"


class _Object:
    """The keys of an object that this project reads, by name, and by what runc accepts for that name."""

    __slots__ = ("fields", "name_by_folded")

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        self.name_by_folded = {name.casefold(): name for name in fields}


# A list stands for a list of such entries, `dict` for an object with any keys.
_HOOKS = [_Object(path=str, args=[str], timeout=int)]
_PROCESS = _Object(
    env=[str], capabilities=_Object(bounding=[str]), user=_Object(uid=int, gid=int, additionalGids=[int])
)
_LINUX = _Object(
    devices=[_Object(path=str, type=str, major=int, minor=int, fileMode=int, uid=int, gid=int)],
    resources=_Object(devices=[_Object(allow=bool, type=str, major=int, minor=int, access=str)]),
    namespaces=[_Object(type=str, path=str)],
    cgroupsPath=str,
)
_SPEC = _Object(
    process=_PROCESS,
    mounts=[_Object(destination=str, source=str)],
    linux=_LINUX,
    hooks=_Object(createRuntime=_HOOKS, poststop=_HOOKS),
    annotations=dict,
)
_NAMES = {str: "a string", int: "a number", bool: "true or false", dict: "an object"}


class VramRequest(Value):
    """Memory of one GPU in MiB, which Docker Swarm took from the node's pool of a `kind`."""

    kind: str
    mib: int


class Grant(Value):
    """What a request gets on this host.

    Attributes:
        gpus: The GPUs, in order of their numbers.
        order: Numbers of GPUs as the request names them, for refusals; () if only the numbers order them.
        notes: A sentence for the log about each item that was ignored.
        kinds: The generic resources by which Docker Swarm chose.
        vram: Memory of a GPU that the GPU Tracker has yet to choose; `gpus` is empty then.
        choice: The request, if it is a choice; None if it names GPUs.
        candidates: The GPUs among which the GPU Tracker has yet to choose; `gpus` is empty then.
    """

    gpus: tuple[GpuLocation, ...]
    order: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    vram: VramRequest | None = None
    choice: Choice | None = None
    candidates: tuple[Gpu, ...] = ()


def read_spec(path: str, *, name: str, hint: str = "", read: Callable[[str], bytes] = read_file) -> dict[str, Any]:
    """Return the spec in a file; FileError calls the file `name`, and has `hint` if the file cannot be read.

    `read` reads the file, for callers that must not read files of every user. It may raise OSError.
    """
    try:
        spec: dict[str, Any] = loads(read(path), make_object=_unambiguous)
        if type(spec) is dict:
            _check_object(spec, _SPEC, "")
            return spec
    except OSError as error:
        raise FileError(f"{name} cannot be read: {reason(error)}", hint=hint) from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{name} is not JSON: {error}") from error
    except SpecError as error:
        raise FileError(f"{name} is not a spec: {error.message}", hint=error.hint) from error
    raise FileError(f"{name} is not a JSON object")


def names_requirements(spec: dict[str, Any]) -> bool:
    """Return whether a spec has environment variables in which an image lists its requirements."""
    environment = (spec.get("process") or {}).get("env") or ()
    return any(variable.startswith(REQUIREMENT_PREFIX) for variable in environment)


def holds_sys_admin(spec: dict[str, Any]) -> bool:
    """Return whether a container has CAP_SYS_ADMIN, as with `docker run --privileged`."""
    capabilities = (spec.get("process") or {}).get("capabilities")
    bounding = capabilities.get("bounding") if isinstance(capabilities, dict) else None
    return isinstance(bounding, list) and "CAP_SYS_ADMIN" in bounding


def is_privileged(spec: dict[str, Any]) -> bool:
    """Return whether a container may use every device and has CAP_SYS_ADMIN, as with `--privileged`.

    One of them alone means less. A user who adds the capability and a GPU's node asks for that GPU, and a user who
    allows every device (`--device-cgroup-rule='a *:* rwm'`) asks for all GPUs.
    """
    return holds_sys_admin(spec) and allows_every_device(device_rules(spec))


def device_rules(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rules of a container's device cgroup, in the order in which they apply."""
    resources = (spec.get("linux") or {}).get("resources") or {}
    return resources.get("devices") or []


def allows_every_device(rules: Sequence[dict[str, Any]]) -> bool:
    """Return whether the rules of a device cgroup allow all devices in the end."""
    allowed = False
    for rule in rules:
        if is_general_rule(rule):
            # runc and cgroups v1 ignore the rest of such a rule; crun with cgroups v2 takes a denial literally.
            allowed = bool(rule.get("allow")) or (allowed and not _denies_everything(rule))
    return allowed


def is_general_rule(rule: dict[str, Any]) -> bool:
    """Return whether a rule is of type "a", which is the default; crun looks at the first letter."""
    return (rule.get("type") or "a").startswith("a")


def gpus_in_spec(spec: dict[str, Any], gpus: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return those of `gpus` whose render or card node a `spec` lists, or allows by a rule of its cgroup.

    A privileged container is root on the host and could reach every GPU. For it, only the GPUs count that a rule names,
    as CDI adds them.
    """
    minors = _minors_in_spec(spec)
    everything = not minors.isdisjoint(ANY_NUMBER)
    return [gpu for gpu in gpus if everything or gpu.render_minor in minors or gpu.card_minor in minors]


def find_given_gpus(host: Host, spec: dict[str, Any]) -> list[GpuLocation]:
    """Return the GPUs that a spec opens by itself; none if the host's GPUs cannot be found."""
    # Few containers need this.
    from amdgpu_discovery.numbering import locate_gpus

    try:
        return gpus_in_spec(spec, locate_gpus(host, board_ids=False))
    except (DriverUnavailable, GpusHidden):
        return []


def names_gpus(spec: dict[str, Any]) -> bool:
    """Return whether `gpus_in_spec`, which needs the host's GPUs, may return any."""
    return bool(_minors_in_spec(spec))


def drm_minors(spec: dict[str, Any]) -> set[int | None]:
    """Return the minor numbers of the render and card nodes, of any vendor, that a spec lists."""
    devices = (spec.get("linux") or {}).get("devices") or ()
    return {device.get("minor") for device in devices if device.get("major") == DRM_MAJOR}


def shared_cgroup(spec: dict[str, Any], container_id: str) -> str:
    """Return the cgroup of a container without a pid namespace of its own, "" for all others."""
    linux = spec.get("linux")
    if linux is None:
        return ""
    for namespace in linux.get("namespaces") or ():
        if namespace.get("type") == "pid" and not namespace.get("path"):
            return ""
    # Without a path, runtimes name the cgroup after the container.
    return str(linux.get("cgroupsPath") or container_id)


def joined_ipc(spec: dict[str, Any]) -> str:
    """Return the path of the IPC namespace that a container joins, as the containers of a pod do; "" for none."""
    namespaces = (spec.get("linux") or {}).get("namespaces") or ()
    return next((space.get("path") or "" for space in namespaces if space.get("type") == "ipc"), "")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise SpecError(f"its key '{twice}' is given twice in one object", hint="runtimes differ in which one they use")
    return fields


def _check(value: object, shape: Any, location: str) -> None:
    """Check a value and its content; null counts as missing."""
    if value is None:
        return
    if type(shape) is _Object:
        _check_object(value, shape, location)
    elif type(shape) is list:
        _check_list(value, shape[0], location)
    elif type(value) is not shape:
        raise SpecError(f"its '{location}' is not {_NAMES[shape]}")


def _check_list(value: object, shape: Any, location: str) -> None:
    if type(value) is not list:
        raise SpecError(f"its '{location}' is not a list")
    entry_type = dict if type(shape) is _Object else shape
    for position, entry in enumerate(value):
        if type(entry) is not entry_type:
            raise SpecError(f"entry {position} of its '{location}' is not {_NAMES[entry_type]}")
        if entry_type is dict:
            _check_object(entry, shape, f"{location}[{position}]")


def _check_object(value: object, shape: _Object, location: str) -> None:
    if type(value) is not dict:
        raise SpecError(f"its '{location}' is not an object")
    for key, inner in value.items():
        if key in shape.fields:
            _check(inner, shape.fields[key], f"{location}.{key}" if location else key)
        elif key.casefold() in shape.name_by_folded:
            meant = shape.name_by_folded[key.casefold()]
            where = f" in '{location}'" if location else ""
            raise SpecError(
                f"its key '{key}'{where} is not written '{meant}'", hint="runtimes differ in whether they read it"
            )


def _denies_everything(rule: dict[str, Any]) -> bool:
    is_any = rule.get("major") in ANY_NUMBER and rule.get("minor") in ANY_NUMBER
    return is_any and set("rwm") <= set(rule.get("access") or "")


def _minors_in_spec(spec: dict[str, Any]) -> set[int | None]:
    """Return the minors of render and card nodes that a spec opens, with one of ANY_NUMBER if it opens all of them."""
    rules = device_rules(spec)
    minors = {rule.get("minor") for rule in rules if rule.get("allow") and _is_about_drm(rule)}
    if is_privileged(spec):
        return minors.difference(ANY_NUMBER)
    if allows_every_device(rules):
        minors.add(None)
    return minors | drm_minors(spec)


def _is_about_drm(rule: dict[str, Any]) -> bool:
    """Return whether a rule is about opening render and card nodes, for which a container needs no node in its spec.

    A container may make the node itself: every container has the rule "c *:* m".
    """
    is_block = (rule.get("type") or "a").startswith("b")
    # `allows_every_device` handles general rules without a number.
    majors = (DRM_MAJOR,) if is_general_rule(rule) else (DRM_MAJOR, *ANY_NUMBER)
    return not is_block and rule.get("major") in majors and rule.get("access") != "m"
