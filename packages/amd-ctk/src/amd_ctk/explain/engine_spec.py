"""What an engine writes into a container's spec before the runtime sees it, as far as GPUs are concerned.

A test compares it with what Docker and Podman of several releases write for the same command lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from amd_ctk.cdi.engine_devices import LARGEST_SPEC, read_spec_files, resolve_devices
from amd_ctk.cdi.generate_options import SPEC_DIRECTORIES
from amd_ctk.engines.engine_words import KEEP_GROUPS, PODMAN, number_of_id
from amd_ctk.explain.container import Container
from amd_ctk.explain.engine_view import find_cdi_directories, find_cdi_refusal, find_version, maps_users
from amd_ctk.explain.host_nodes import DRI, EVERY_ACCESS, find_mapped, find_nodes, is_cdi_name, parse_mapping
from amd_device_spec.cdi.text import BrokenText, parse_spec
from amd_device_spec.cdi.version import unread_versions
from amd_device_spec.oci import KEEP_GROUPS as KEEPS_GROUPS
from amd_device_spec.oci import PRIVATE_NODES
from amd_gpu_tracker.claims.hook_entries import is_check_hook, is_claim_hook, requires_limit
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

# JSON: a spec, a node or a rule.
Tree = dict[str, Any]
Made = TypeVar("Made")
# What Docker refuses in a container with a user namespace, by option.
INCOMPATIBLE = {
    "--privileged": "privileged mode is incompatible with user namespaces",
    "--pid=host": "cannot share the host PID namespace when user namespaces are enabled",
    "--network=host": "cannot share the host's network namespace when user namespaces are enabled",
    "--ipc=host": 'error mounting "mqueue" to rootfs at "/dev/mqueue"',
}
# The keys of a node in a spec.
ACCESS = ("fileMode", "uid", "gid")
RULE = re.compile(r"([acb]) ([0-9]+|\*):([0-9]+|\*) ([rwm]{1,3})")
# Podman also takes a major number alone, and any letters or none.
PODMAN_RULE = re.compile(r"([acb]) ([0-9]+|\*)(?::([0-9]+|\*))? ([rwm]*)")
# The most digits of a device number.
LONGEST_DEVICE_WORD = 20


class CdiEdits(Value):
    """What a CDI device adds: nodes with their access, variables, and hooks."""

    nodes: tuple[Tree, ...] = ()
    environment: tuple[str, ...] = ()
    hooks: tuple[Tree, ...] = ()


class EngineSpec(Value):
    """A spec, why the engine does not start the container, and what the hooks in it do."""

    spec: Tree
    refusals: tuple[ToolkitError, ...] = ()
    checks_image: bool = False
    is_claimed: bool = False
    requires_limit: bool = False


def build_spec(container: Container, host: Host) -> EngineSpec:
    """Return the spec that an engine would hand to the runtime."""
    refusals: list[ToolkitError] = []
    nodes, rules = _give_nodes(container, host, refusals)
    cdi = _find_cdi(container, host, refusals)
    rules += [_rule(node, node["access"]) for edits in cdi for node in edits.nodes]
    added = [{key: node[key] for key in node if key != "access"} for edits in cdi for node in edits.nodes]
    variables = [entry for edits in cdi for entry in edits.environment]
    hooks = [hook for edits in cdi for hook in edits.hooks]
    is_mapped = not container.user_namespace and maps_users(container, host)
    namespace = is_mapped or container.user_namespace not in ("", "host")
    refusals += _find_incompatible(container) if is_mapped else ()
    is_powerful = container.privileged or not {"ALL", "SYS_ADMIN"}.isdisjoint(container.capabilities)
    spec: Tree = {
        "process": {
            "env": _with_later(container.variables, variables, lambda entry: entry.partition("=")[0]),
            "capabilities": {"bounding": ["CAP_SYS_ADMIN"] if is_powerful else []},
            "user": _user(container),
        },
        "linux": {
            "devices": _with_later(nodes, added, itemgetter("path")),
            "resources": {"devices": [{"allow": container.privileged, "access": "rwm"}, *rules]},
            "namespaces": [{"type": "user"}] if namespace else [],
        },
    }
    if container.maker == PODMAN and KEEP_GROUPS in container.groups:
        spec["annotations"] = {KEEPS_GROUPS: "1"}
    return EngineSpec(
        spec=spec,
        refusals=tuple(refusals),
        checks_image=any(is_claim_hook(hook) or is_check_hook(hook) for hook in hooks),
        is_claimed=any(map(is_claim_hook, hooks)),
        requires_limit=any(map(requires_limit, hooks)),
    )


def _find_incompatible(container: Container) -> Iterator[ToolkitError]:
    asked = [*(f"--{name}=host" for name in container.host_namespaces), *["--privileged"] * container.privileged]
    for option, why in INCOMPATIBLE.items():
        if option in asked:
            yield ToolkitError(f"docker refuses {option}: {why}", hint="add --userns=host")


def _user(container: Container) -> Tree:
    """Return the user and the groups that are numbers; only the image knows the numbers of names."""
    uid, _, gid = container.user.partition(":")
    found: Tree = {"uid": number_of_id(uid)} if number_of_id(uid) is not None else {}
    if number_of_id(gid or "x") is not None or uid in ("", "root", "0"):
        found["gid"] = number_of_id(gid)
    groups = [number for number in map(number_of_id, container.groups) if number is not None]
    return {**found, "additionalGids": groups} if groups else found


def _give_nodes(container: Container, host: Host, refusals: list[ToolkitError]) -> tuple[list[Tree], list[Tree]]:
    """Return the nodes of the host and the rules that a container gets without CDI."""
    engine = container.maker
    asked = [device for device in container.devices if not is_cdi_name(device)]
    if container.is_rootless:
        # Without root, engines bind nodes too, and there is no device cgroup.
        asked += [f"{source}:{target}" for source, target in container.mounts if source.startswith((KFD_PATH, DRI))]
    nodes: list[Tree] = []
    rules: list[Tree] = []
    mapped = () if container.privileged else asked
    for found, access in _collect(lambda device: _find_device(device, engine, host), mapped, refusals):
        paths = {node["path"] for node in found} if engine == PODMAN else set()
        nodes = [*(node for node in nodes if node["path"] not in paths), *found]
        rules += [_rule(node, access) for node in found]
    rules += _collect(lambda rule: _parse_rule(rule, engine), container.device_rules, refusals)
    return (_find_every_node(asked, container, host), []) if container.privileged else (nodes, rules)


def _collect(parse: Callable[[str], Made], texts: Iterable[str], refusals: list[ToolkitError]) -> Iterator[Made]:
    """Yield the result for each word, and collect the refusals."""
    for text in texts:
        try:
            yield parse(text)
        except ToolkitError as error:
            refusals.append(error)


def _find_every_node(asked: Iterable[str], container: Container, host: Host) -> list[Tree]:
    """Return all GPU nodes, which the only rule of a privileged container allows, and mapped ones under other names.

    The nodes that the runtime made for user namespaces are in /dev too. Podman 4 gives a privileged container no node
    under another name.
    """
    engine = container.maker
    nodes = [node for path in (KFD_PATH, DRI, PRIVATE_NODES) for node in find_nodes(path, host)]
    mappings = (parse_mapping(device, engine) for device in asked)
    moved = [mapping for mapping in mappings if mapping.source != mapping.target]
    if moved and engine == PODMAN and () < find_version(container, host) < (5,):
        moved = []
    return [*nodes, *(node for mapping in moved for node in find_mapped(mapping, engine, host))]


def _find_device(asked: str, engine: str, host: Host) -> tuple[list[Tree], str]:
    """Return the nodes that `--device` passes, and the access to them; ToolkitError if there are none."""
    mapping = parse_mapping(asked, engine)
    nodes = find_mapped(mapping, engine, host)
    if not nodes:
        raise ToolkitError(f"--device {mapping.source}: this host has no such device")
    return nodes, mapping.access


def _parse_rule(text: str, engine: str) -> Tree:
    """Return a rule as after --device-cgroup-rule; ToolkitError. Docker writes * as -1, and Podman leaves it out."""
    found = (PODMAN_RULE if engine == PODMAN else RULE).fullmatch(text)
    if not found:
        raise ToolkitError(f"--device-cgroup-rule {text!r}: this is not a rule", hint="write it as 'c 226:* rwm'")
    kind, *numbers, access = found.groups()
    read = {
        key: -1 if word in ("*", None) else int(word[:LONGEST_DEVICE_WORD])
        for key, word in zip(("major", "minor"), numbers, strict=True)
    }
    named = {key: number for key, number in read.items() if number >= 0 or engine != PODMAN}
    return {"allow": True, "type": kind, **named, "access": access}


def _rule(node: Tree, access: str) -> Tree:
    return {"allow": True, "type": node["type"], "major": node["major"], "minor": node["minor"], "access": access}


def _find_cdi(container: Container, host: Host, refusals: list[ToolkitError]) -> list[CdiEdits]:
    names = [*filter(is_cdi_name, container.devices)]
    if not names:
        return []
    # Ask only once, because waiting for a hung engine takes long.
    version = find_version(container, host)
    if refusal := find_cdi_refusal(container, version, host):
        refusals.append(refusal)
        return []
    unread = unread_versions(container.maker.capitalize(), version)
    directories = find_cdi_directories(container, host)
    return list(_collect(lambda name: _find_edits(name, host, unread, directories), names, refusals))


def _with_later(entries: Iterable[Made], more: Iterable[Made], key: Callable[[Made], str]) -> list[Made]:
    """Return entries with those of CDI devices, which replace entries with the same key."""
    later = {key(entry): entry for entry in more}
    return [*(entry for entry in entries if key(entry) not in later), *later.values()]


def _find_edits(asked: str, host: Host, unread: Sequence[str], places: tuple[str, ...]) -> CdiEdits:
    """Return what the CDI device of a qualified name adds; ToolkitError if the engine does not find the name.

    The engine leaves specs of the versions `unread` out, and reads those in `places`.
    """
    directories = read_spec_files(host, places)
    read = [[file for file in files if file.version not in unread] for files in directories]
    device = next((device for device in resolve_devices(read) if device.name == asked), None)
    if device and not device.is_conflict:
        return _read_edits(device.paths[-1], asked.partition("=")[2], host)
    if device:
        why = f"no engine can resolve this name, which {' and '.join(device.paths)} define"
        hint = "remove one of these files"
    elif later := next((file for files in directories for file in files if asked in file.names), None):
        why = f"the engine leaves {later.path} out, which has version {later.version} of CDI"
        hint = "'amd-ctk doctor' prints the command that writes one that it reads"
    elif places != SPEC_DIRECTORIES:
        only = " and ".join(places) or "no directory"
        why = f"the engine reads CDI specs in {only} only, where none has this device"
        hint = f"sudo amd-ctk cdi generate --output={places[0]}/amd.json" if places else "name one in the engine's file"
    else:
        why = "no CDI spec of this host has this device"
        hint = "'amd-ctk cdi list --specs' shows them all; 'sudo amd-ctk cdi generate' writes those of AMD"
    raise ToolkitError(f"--device {asked}: {why}", hint=hint)


def _read_edits(path: str, name: str, host: Host) -> CdiEdits:
    try:
        spec: Any = parse_spec(read_plain_file(path, largest=LARGEST_SPEC)[0]).tree
    except (OSError, BrokenText) as error:
        raise ToolkitError(f"the CDI spec {path} cannot be read: {error}") from error
    owners = [spec, *(device for device in spec["devices"] if device["name"] == name)]
    edits = [owner.get("containerEdits") or {} for owner in owners]
    return CdiEdits(
        nodes=tuple(node for part in edits for node in _nodes(part.get("deviceNodes") or (), host)),
        environment=tuple(entry for part in edits for entry in part.get("env") or ()),
        hooks=tuple(hook for part in edits for hook in part.get("hooks") or ()),
    )


def _nodes(listed: Iterable[Tree], host: Host) -> Iterator[Tree]:
    for node in listed:
        path = node["path"]
        permissions = {"access": node.get("permissions") or EVERY_ACCESS}
        if isinstance(node.get("major"), int) and isinstance(node.get("minor"), int):
            access = {key: node[key] for key in ACCESS if isinstance(node.get(key), int)}
            yield {"path": path, "type": "c", "major": node["major"], "minor": node["minor"], **access, **permissions}
        else:
            # If a CDI spec has no mode, engines make the node 0666.
            for found in find_nodes(str(node.get("hostPath") or path), host):
                kept = {key: value for key, value in found.items() if key not in ACCESS}
                yield {**kept, "path": path, **permissions}
