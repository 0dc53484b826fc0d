"""Read the parts of a pod's container that decide about GPUs, as `podman kube play` does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from amd_ctk.engines.engine_address import find_own_settings
from amd_ctk.engines.engine_words import PODMAN
from amd_ctk.explain.container import SETTINGS, Container, ExplainError
from amd_ctk.explain.engine_view import find_version
from amd_ctk.explain.host_nodes import find_nodes, is_cdi_name
from amd_device_spec.cdi.text import BrokenText, parse_spec
from amdgpu_discovery.command_line.json_parts import list_at, object_at, objects_at
from amdgpu_discovery.errors import reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_text import one_line

Tree = dict[str, Any]

LARGEST_MANIFEST = 4 * 1024 * 1024
# Every Kubernetes document has this, and no Compose file.
KUBE_DOCUMENT = re.compile(r'^apiVersion[ \t]*:|"apiVersion"[ \t]*:', re.MULTILINE)
BETWEEN_DOCUMENTS = re.compile(r"^---(?=\s|$).*\n?", re.MULTILINE)
MOST_DOCUMENTS = 100
# Kinds with a template that contains the pod.
WITH_TEMPLATE = ("Deployment", "DaemonSet", "Job")
# Kinds that Podman 4 does not start.
SINCE_PODMAN_5 = ("DaemonSet", "Job")
# Since these versions of Podman, limits name devices, and a container's own variables override those of a ConfigMap.
SINCE_LIMITS = (5, 4)
SINCE_OWN_VARIABLES_WIN = (5, 8)
DEVICE_ANNOTATION = "podman.io/device="
KIND_BY_TYPE = {"CharDevice": "c", "BlockDevice": "b"}
GPU_NODE = re.compile(r"/dev(/dri(/.*)?|/kfd)?/?")


def is_kube_file(path: str) -> bool:
    """Return whether a file describes pods and not Compose services; ExplainError if it cannot be read."""
    return bool(KUBE_DOCUMENT.search(_read_text(path)))


def read_pod(path: str, name: str, host: Host) -> Container:
    """Return a container of the pod in a file; ExplainError if it has none of this name or Podman refuses it."""
    documents = _read_documents(path)
    version = find_version(Container(engine=PODMAN), host)
    pod = next((pod for pod in map(partial(_find_pod, version=version), documents) if pod), {})
    if not pod:
        kinds = one_line(", ".join(str(document.get("kind")) for document in documents))
        raise ExplainError(
            f"{path} has no pod that Podman starts", hint=f"a Pod, {', '.join(WITH_TEMPLATE)}; not {kinds}"
        )
    containers = {str(one.get("name")): one for key in ("initContainers", "containers") for one in objects_at(pod, key)}
    if name not in containers:
        known = one_line(", ".join(containers)) or "none"
        raise ExplainError(f"{path} has no container {name}", hint=f"it has {known}")
    container = containers[name]
    own, shared = object_at(container, "securityContext"), object_at(pod, "securityContext")
    return Container(
        engine=PODMAN,
        environment=_environment(container, documents, version),
        devices=(*_limits(container, version), *_nodes(container, pod, host)),
        own_settings=find_own_settings(os.environ),
        privileged=own.get("privileged") is True,
        capabilities=tuple(str(one).upper().removeprefix("CAP_") for one in list_at(own, "capabilities", "add")),
        user=_user({**shared, **own}),
        groups=tuple(map(str, list_at(shared, "supplementalGroups"))),
        image=str(container.get("image") or ""),
        is_engine_silent=host.is_this_machine and not version,
        settings=SETTINGS[:1] if () < version < (5,) else SETTINGS,
        unread=tuple(_find_unread(container, pod)),
        problems=tuple(_find_ignored(container, version)),
    )


def _read_text(path: str) -> str:
    try:
        return read_plain_file(path, largest=LARGEST_MANIFEST)[0].decode()
    except (OSError, UnicodeDecodeError) as error:
        why = reason(error) if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ExplainError(f"{path} cannot be read: {why}") from error


def _read_documents(path: str) -> list[Tree]:
    texts = BETWEEN_DOCUMENTS.split(_read_text(path))
    if len(texts) > MOST_DOCUMENTS:
        raise ExplainError(f"{path} has more than {MOST_DOCUMENTS} documents, which are not read")
    try:
        trees = [parse_spec(text.encode()).tree for text in texts if text.strip()]
    except BrokenText as error:
        raise ExplainError(f"a document of {path} is not YAML: {error.message}") from error
    return [tree for tree in trees if isinstance(tree, dict)]


def _find_pod(document: Tree, version: tuple[int, ...]) -> Tree:
    """Return the spec of a document's pod, {} if it has none; ExplainError if this Podman cannot start its kind."""
    if document.get("kind") in SINCE_PODMAN_5 and () < version < (5,):
        raise ExplainError(f"Podman 4 cannot start a {document['kind']}", hint="write a Pod or a Deployment")
    if document.get("kind") == "Pod":
        return object_at(document, "spec")
    return object_at(document, "spec", "template", "spec") if document.get("kind") in WITH_TEMPLATE else {}


def _environment(container: Tree, documents: list[Tree], version: tuple[int, ...]) -> tuple[str, ...]:
    maps = {
        str(object_at(one, "metadata").get("name")): object_at(one, "data")
        for one in documents
        if one.get("kind") == "ConfigMap"
    }
    shared = tuple(_from_maps(container, maps))
    values = ((entry.get("name"), _value_of(entry, maps)) for entry in objects_at(container, "env"))
    own = tuple(f"{name}={value}" for name, value in values if value is not None)
    return (*own, *shared) if () < version < SINCE_OWN_VARIABLES_WIN else (*shared, *own)


def _from_maps(container: Tree, maps: dict[str, Tree]) -> Iterator[str]:
    for source in objects_at(container, "envFrom"):
        wanted = object_at(source, "configMapRef")
        if wanted and str(wanted.get("name")) in maps:
            yield from (f"{name}={value}" for name, value in maps[str(wanted.get("name"))].items())
        elif wanted and wanted.get("optional") is not True:
            raise ExplainError(f"configmap {one_line(str(wanted.get('name')))} not found", hint="add it to the file")


def _value_of(entry: Tree, maps: dict[str, Tree]) -> str | None:
    """Return the value of a variable, None if it has none; ExplainError if a required value is missing."""
    source = object_at(entry, "valueFrom")
    wanted = object_at(source, "configMapKeyRef")
    if not wanted:
        return None if source else str(entry.get("value") or "")
    found = maps.get(str(wanted.get("name")), {}).get(str(wanted.get("key")))
    if found is None and wanted.get("optional") is not True:
        words = f"{entry.get('name')}: key {wanted.get('key')} not found in configmap {wanted.get('name')}"
        raise ExplainError(f"cannot set env {one_line(words)}", hint="add it to the file")
    return None if found is None else str(found)


def _limits(container: Tree, version: tuple[int, ...]) -> Iterator[str]:
    """Yield the CDI devices and nodes that a container requests, whatever their count."""
    if version and version < SINCE_LIMITS:
        return
    resources = object_at(container, "resources")
    for name in map(str, {**object_at(resources, "limits"), **object_at(resources, "requests")}):
        if name.startswith(DEVICE_ANNOTATION):
            yield name.removeprefix(DEVICE_ANNOTATION)
        elif is_cdi_name(name):
            yield name


def _find_ignored(container: Tree, version: tuple[int, ...]) -> Iterator[str]:
    """Yield why Podman gives no GPU for names in a container's resources."""
    resources = object_at(container, "resources")
    for name in map(one_line, map(str, {**object_at(resources, "limits"), **object_at(resources, "requests")})):
        kind, equals, _ = name.removeprefix(DEVICE_ANNOTATION).partition("=")
        if ("amd.com/" in kind or kind == "nvidia.com/gpu") and not equals:
            yield f"Podman gives no GPU for {name}, which a device plugin of Kubernetes serves: write amd.com/gpu=0: 1"
        elif is_cdi_name(name.removeprefix(DEVICE_ANNOTATION)) and () < version < SINCE_LIMITS:
            known = ".".join(map(str, version))
            yield f"Podman {known} reads no device below resources: {name} needs Podman 5.4, or use podman run"


def _nodes(container: Tree, pod: Tree, host: Host) -> Iterator[str]:
    """Yield the nodes of volumes of the types CharDevice and BlockDevice; ExplainError if the host has no such node."""
    for path, kind, target in _host_paths(container, pod):
        wanted = KIND_BY_TYPE.get(kind)
        if wanted:
            if [node["type"] for node in find_nodes(path, host) if node["path"] == path] != [wanted]:
                raise ExplainError(f"the hostPath {one_line(path)} is not a {kind} on this host")
            yield f"{path}:{target}"


def _host_paths(container: Tree, pod: Tree) -> Iterator[tuple[str, str, str]]:
    """Yield path, type and mount path of each directory or file of the host that a container mounts."""
    volumes = {str(one.get("name")): object_at(one, "hostPath") for one in objects_at(pod, "volumes")}
    for mount in objects_at(container, "volumeMounts"):
        volume = volumes.get(str(mount.get("name")), {})
        yield str(volume.get("path", "")), str(volume.get("type", "")), str(mount.get("mountPath", ""))


def _user(context: Tree) -> str:
    user, group = context.get("runAsUser"), context.get("runAsGroup")
    if group is None:
        return "" if user is None else str(user)
    return f"{user or 0}:{group}"


def _find_unread(container: Tree, pod: Tree) -> Iterator[str]:
    """Yield settings that are not read here, but can change which GPUs a container gets."""
    for entry in objects_at(container, "env"):
        others = [key for key in object_at(entry, "valueFrom") if key != "configMapKeyRef"]
        yield from (one_line(f"env {entry.get('name')}: {key}") for key in others)
    if any(object_at(source, "secretRef") for source in objects_at(container, "envFrom")):
        yield "envFrom: secretRef"
    for path, kind, _ in _host_paths(container, pod):
        if GPU_NODE.fullmatch(path) and kind not in KIND_BY_TYPE:
            yield f"hostPath: {path}"
    if object_at(container, "resources").get("claims"):
        yield "resources: claims"
    if pod.get("hostUsers") is False:
        yield "hostUsers: false"
