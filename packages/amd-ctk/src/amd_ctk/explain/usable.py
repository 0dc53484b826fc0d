"""Which GPUs programs inside can use: ROCm opens /dev/kfd and the render node as the container's user."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from typing import Any

from amd_ctk.engines.engine_words import DOCKER, KEEP_GROUPS, number_of_id
from amd_ctk.explain.container import Container
from amd_ctk.explain.engine_spec import ACCESS
from amd_ctk.explain.engine_view import AMD
from amd_ctk.explain.host_nodes import DRI, find_mounted
from amd_ctk.explain.plan import Plan
from amd_ctk.rocm_nodes import (
    CAP_DAC_OVERRIDE,
    LEAVE_NAME,
    NodeAccess,
    ProcessUser,
    closed_fix,
    describe_closed,
    describe_renamed,
    find_missing,
    mode_allows,
)
from amdgpu_discovery.choices.oci_spec import drm_minors
from amdgpu_discovery.driver.device_nodes import KFD_PATH
from amdgpu_discovery.driver.drm import DRM_MAJOR
from amdgpu_discovery.driver.kfd_topology import TOPOLOGY
from amdgpu_discovery.gpu import GpuLocation
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

UNKNOWN_ID = -1
# Linux: drm_minor_alloc. Card nodes have smaller minors.
FIRST_RENDER_MINOR = 128
NO_GPU_OF_KFD = "the kernel's compute driver (KFD) lists no GPU of these nodes: 'amd-ctk doctor' says more"
# Wildcards in a rule of the device cgroup.
ANY = (None, -1, "a")
# The keys of a rule that say which devices it is for.
NUMBER = ("type", "major", "minor")


class DeviceRules:
    """The rules of a container's device cgroup; those of one node are found at once, because a host may have 1,000."""

    def __init__(self, spec: dict[str, Any]) -> None:
        """Read the rules of an OCI spec."""
        # With their places, because a later rule changes what an earlier one says.
        self._for_many: list[tuple[int, dict[str, Any]]] = []
        self._by_number: dict[tuple[Any, ...], list[tuple[int, dict[str, Any]]]] = {}
        for place, rule in enumerate(spec["linux"]["resources"]["devices"]):
            number = tuple(rule.get(key) for key in NUMBER)
            is_for_one = not any(part in ANY for part in number)
            rules = self._by_number.setdefault(number, []) if is_for_one else self._for_many
            rules.append((place, rule))

    def may_use(self, device: dict[str, Any]) -> bool:
        """Return whether the rules let the container read and write a node."""
        access: set[str] = set()
        for rule in self._rules_of(tuple(device[key] for key in NUMBER)):
            named = set(rule["access"])
            access = access | named if rule["allow"] else access - named
        return access >= {"r", "w"}

    def _rules_of(self, number: tuple[Any, ...]) -> list[dict[str, Any]]:
        """Return the rules for a device number, in their order."""
        for_many = [
            (place, rule)
            for place, rule in self._for_many
            if all(rule.get(key) in (*ANY, part) for key, part in zip(NUMBER, number, strict=True))
        ]
        found = sorted([*for_many, *self._by_number.get(number, ())], key=lambda found: found[0])
        return [rule for _, rule in found]


class UsableGpus(Value):
    """The GPUs whose nodes a container has and may open, and why the others cannot be used."""

    gpus: tuple[GpuLocation, ...]
    problems: tuple[str, ...] = ()
    # The paths of the DRM nodes that only volumes bring, by their minor numbers.
    volume_paths: dict[int, str] = {}  # noqa: RUF012 - values are immutable, and it is never changed


def with_host_nodes(plan: Plan, located: Sequence[GpuLocation]) -> Plan:
    """Return the plan of a privileged container with the GPUs of all nodes in its spec; no rule names them."""
    # GPUs that are asked for by number are not fully read, so compare the minors.
    minors = drm_minors(plan.spec) - {gpu.render_minor for gpu in plan.gpus}
    found = [gpu for gpu in located if gpu.render_minor in minors]
    return plan.replace(given=(*plan.given, *found))


def find_usable(plan: Plan, container: Container, host: Host) -> UsableGpus:
    """Return the GPUs of a plan that programs can use in a container whose spec an engine made."""
    given = plan.spec["linux"]["devices"]
    named = {device["path"] for device in given}
    mounted = _find_mounted(container, plan, named, host)
    devices = [device for device in (*given, *mounted) if _is_for_compute(device["path"])]
    present = {device["path"] for device in devices} | {node.path for node in plan.nodes}
    if not present and not plan.gpus:
        return UsableGpus(gpus=())
    is_bound = _binds_nodes(container, plan.spec)
    closed = _find_closed_on_host(devices, container, host) if is_bound else _find_closed(devices, container, plan)
    if not is_bound and names_of_image(container):
        # Whether the container's user may open them is not known.
        closed = []
    rules = DeviceRules(plan.spec)
    refused = [device["path"] for device in devices if not rules.may_use(device)]
    # Of two nodes with one path, runc makes the first.
    by_path = {node["path"]: node for node in reversed(given)}
    renamed = {path: node["minor"] for path, node in by_path.items() if _is_renamed(node)}
    other_name = describe_renamed(renamed, present)
    problems = (
        _missing_problem(present, host),
        _gone_problem(devices, host),
        _closed_problem(closed[0], container, plan, is_bound=is_bound) if closed else "",
        _refused_problem(refused[0], named) if refused else "",
        f"{other_name}; {LEAVE_NAME}" if other_name else "",
    )
    met = tuple(filter(None, problems))
    opened = present - {node.path for node in closed} - set(refused) - set(renamed)
    return UsableGpus(
        gpus=tuple(gpu for gpu in plan.gpus if {KFD_PATH, gpu.render_path} <= opened),
        problems=met if met or plan.gpus else (NO_GPU_OF_KFD,),
        volume_paths={node["minor"]: node["path"] for node in mounted if node["major"] == DRM_MAJOR},
    )


def find_listed(plan: Plan, container: Container, located: Sequence[GpuLocation]) -> list[GpuLocation]:
    """Return the GPUs that KFD lists in a container. KFD asks only the device cgroup; rootless containers have none."""
    if KEEP_GROUPS in container.groups:
        return list(located)
    rules = DeviceRules(plan.spec)
    nodes = ({"type": "c", "major": DRM_MAJOR, "minor": gpu.render_minor} for gpu in located)
    return [gpu for gpu, node in zip(located, nodes, strict=True) if rules.may_use(node)]


def names_of_image(container: Container) -> list[str]:
    """Return the options whose numbers only the image knows. An engine refuses a name that the image lacks."""
    user, _, group = container.user.partition(":")
    option = "USER" if container.is_user_of_image else "--user"
    names = [f"{option} {container.user}"] if UNKNOWN_ID in map(_number_of, (user, group)) else []
    added = (group for group in container.groups if group != KEEP_GROUPS and _number_of(group) == UNKNOWN_ID)
    return [*names, *(f"--group-add {group}" for group in added)]


def _find_mounted(container: Container, plan: Plan, named: set[str], host: Host) -> list[dict[str, Any]]:
    """Return the nodes that only a volume brings, without those of GPUs that the container does not ask for."""
    others = named | {node.path for node in plan.nodes}
    rules = DeviceRules(plan.spec)
    nodes = [node for node in find_mounted(container.mounts, host) if node["path"] not in others]
    return [node for node in nodes if not plan.gpus or node["major"] != DRM_MAJOR or rules.may_use(node)]


def _missing_problem(present: set[str], host: Host) -> str:
    missing, fix = find_missing("the container", sorted(filter(_is_for_compute, present)))
    if not missing:
        return ""
    if KFD_PATH in present or host.stat(KFD_PATH) is not None:
        return f"{missing}: {fix}"
    has_driver = host.stat(TOPOLOGY) is not None
    missing = f"this host has no {KFD_PATH}" if has_driver else "this kernel has no compute driver (CONFIG_HSA_AMD)"
    return f"{missing}: 'amd-ctk doctor' says more"


def _gone_problem(devices: Sequence[dict[str, Any]], host: Host) -> str:
    """Name a render node that the host lacks. Engines make the nodes of a CDI spec by the numbers in it."""
    renders = [device for device in devices if device["major"] == DRM_MAJOR]
    gone = [device["path"] for device in renders if host.stat(f"{DRI}/renderD{device['minor']}") is None]
    fix = "write a new CDI spec with 'sudo amd-ctk cdi generate'"
    return f"{gone[0]} leads nowhere, because its GPU is gone: {fix}" if gone else ""


def _refused_problem(path: str, named: set[str]) -> str:
    fix = "give it the access rw" if path in named else f"use --device {path} instead of a volume"
    return f"the device cgroup denies reading and writing {path}: {fix}"


def _is_renamed(device: dict[str, Any]) -> bool:
    is_render = device["major"] == DRM_MAJOR and device["minor"] >= FIRST_RENDER_MINOR
    return bool(is_render and device["path"] != f"{DRI}/renderD{device['minor']}")


def _is_for_compute(path: str) -> bool:
    return path == KFD_PATH or path.startswith(f"{DRI}/renderD")


def _find_closed(devices: Sequence[dict[str, Any]], container: Container, plan: Plan) -> list[NodeAccess]:
    """Return the nodes that their mode closes to the container's user."""
    # The caller's groups are unknown. crun gives nodes the spec's mode and owner, in the numbers of a user namespace.
    if KEEP_GROUPS in container.groups:
        return []
    nodes = [
        NodeAccess(path=device["path"], mode=device["fileMode"], uid=device["uid"], gid=device["gid"])
        for device in devices
        if device.keys() >= set(ACCESS)
    ]
    user = _read_user(container, plan)
    return [node for node in nodes if not mode_allows(node, user)]


def _binds_nodes(container: Container, spec: dict[str, Any]) -> bool:
    """Return whether a container's nodes are the host's, with its modes. If root calls crun, it makes new nodes."""
    mapped = {"type": "user"} in spec["linux"]["namespaces"]
    # The AMD runtime calls runc if runc is installed.
    is_named = os.path.basename(container.runtime) in ("runc", AMD)
    is_made_by_runc = is_named or (container.engine == DOCKER and "crun" not in container.runtime)
    return container.is_rootless or (mapped and is_made_by_runc)


def _find_closed_on_host(devices: Sequence[dict[str, Any]], container: Container, host: Host) -> list[NodeAccess]:
    """Return the host's nodes that are closed to a container with a user namespace, under their names inside."""
    user = _read_caller(container)
    found = []
    for device in devices:
        path = f"{DRI}/renderD{device['minor']}" if device["major"] == DRM_MAJOR else KFD_PATH
        if status := host.stat(path):
            mode = stat.S_IMODE(status.st_mode)
            node = NodeAccess(path=device["path"], mode=mode, uid=status.st_uid, gid=status.st_gid)
            # An access control list may open a node too, whatever its group.
            is_listed = container.is_rootless and user.uid != UNKNOWN_ID and node.gid not in os.getgroups()
            if not (mode_allows(node, user) or (is_listed and os.access(host.path(path), os.R_OK | os.W_OK))):
                found.append(node)
    return found


def _read_caller(container: Container) -> ProcessUser:
    """Return the user as whom a user namespace opens host nodes: if rootless, the caller, whose groups crun keeps."""
    if not container.is_rootless:
        return ProcessUser(uid=UNKNOWN_ID, gid=UNKNOWN_ID)
    is_kept = KEEP_GROUPS in container.groups and os.path.basename(container.runtime) != "runc"
    groups = tuple(os.getgroups()) if is_kept else ()
    is_caller = _is_caller(container)
    return ProcessUser(
        uid=os.getuid() if is_caller else UNKNOWN_ID, gid=os.getgid() if is_caller else UNKNOWN_ID, groups=groups
    )


def _is_caller(container: Container) -> bool:
    """Return whether a rootless container's user is its caller, and not one of the ids for containers."""
    # Root only calls a rootless engine of someone else.
    if not os.geteuid():
        return False
    user = container.user.partition(":")[0]
    _, is_kept, options = container.user_namespace.partition("--userns=keep-id")
    if not is_kept:
        return _number_of(user) == 0
    # Then its root is one of the ids for containers.
    chosen = (option[4:] for option in options[1:].split(",") if option.startswith("uid="))
    return user in ("", next(chosen, str(os.getuid())))


def _closed_problem(node: NodeAccess, container: Container, plan: Plan, *, is_bound: bool) -> str:
    if is_bound and container.is_rootless:
        to_other = f"user {container.user or 0} of a rootless container may not open {node.with_owner}"
        words = describe_closed(node, _read_caller(container)) if _is_caller(container) else to_other
        return f"{words}: {_fix_without_root(node, container)}"
    fix = "use --runtime=amd" if is_bound else closed_fix(node)
    if plan.nodes:
        # The runtime does not change a node that the engine passes.
        fix = f"leave out --device {node.path}"
    if is_bound:
        return f"in a user namespace nobody may open {node.with_owner}: {fix}"
    return f"{describe_closed(node, _read_user(container, plan))}: {fix}"


def _fix_without_root(node: NodeAccess, container: Container) -> str:
    if node.gid == 0:
        # Root owns the nodes if only users who reserved a GPU may open them.
        return "start it with 'amd-ctk run --'" if _is_caller(container) else "leave out --user"
    if container.engine == DOCKER:
        # Rootless Docker keeps no groups.
        return 'use a udev rule that sets MODE="0666"'
    group = f"be in group {node.gid} of this host, and "
    if node.gid in os.getgroups():
        group = ""
    elif _has_joined(node.gid):
        group = f"log out and in again, because you joined group {node.gid} after you logged in, and "
    return f"{group}use crun with --group-add keep-groups"


def _has_joined(gid: int) -> bool:
    """Return whether the caller is in a group of which the session does not know yet."""
    # Imported here because few containers have closed nodes.
    from pwd import getpwuid

    try:
        entry = getpwuid(os.getuid())
    except KeyError:
        return False
    return gid in os.getgrouplist(entry.pw_name, entry.pw_gid)


def _read_user(container: Container, plan: Plan) -> ProcessUser:
    """Return the user as whom the container's program opens nodes, with UNKNOWN_ID for a name of the image."""
    uid, _, gid = container.user.partition(":")
    added = plan.edits.gids if plan.edits else ()
    groups = (*map(_number_of, container.groups), *added)
    return ProcessUser(
        uid=_number_of(uid),
        gid=_number_of(gid),
        groups=groups,
        # The kernel removes all capabilities of users other than root.
        capabilities=1 << CAP_DAC_OVERRIDE if _number_of(uid) == 0 else 0,
    )


def _number_of(word: str) -> int:
    number = number_of_id(word)
    return UNKNOWN_ID if number is None else number
