"""The names that engines give to containers, read from the engines' files, as root and as far as possible."""

from __future__ import annotations

import os

from amd_gpu_tracker.book.user_files import UserFiles
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import loads
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Protocol

    from amd_gpu_tracker.book.lease import Lease

    class Container(Protocol):
        """A container whose name is wanted."""

        @property
        def container_id(self) -> str:
            """Return its id."""

        @property
        def bundle(self) -> str:
            """Return the directory of its bundle."""

        @property
        def user(self) -> int | None:
            """Return the uid of a rootless container's user, None for root."""


# Of containerd's CRI plugin, and of nerdctl.
NAME_ANNOTATIONS = ("io.kubernetes.cri.container-name", "io.kubernetes.container.name", "nerdctl/name")
# Namespace and name of the pod, of containerd's CRI plugin and of CRI-O.
POD_ANNOTATIONS = (
    ("io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri.sandbox-name"),
    ("io.kubernetes.pod.namespace", "io.kubernetes.pod.name"),
)
# Part of the bundles that containerd makes for dockerd, which has no pods.
OF_DOCKER = "/moby/"
# Of containerd's CRI plugin.
IMAGE_ANNOTATION = "io.kubernetes.cri.image-name"
# Podman's lists of containers; those started with `--rm` are in the second.
PODMAN_LISTS = ("containers.json", "volatile-containers.json")
# Limits: for a file about root's containers, which may list very many; for a file of a user; and for all files that are
# read for the names of a user's containers.
LARGEST_NAMES_FILE = 64 * 1024 * 1024
LARGEST_BYTES_OF_USERS = 1024 * 1024
MOST_BYTES_OF_A_USER = 16 * 1024 * 1024
# Engines allow less.
LONGEST_CONTAINER_NAME = 128


def find_container_names(uses: Iterable[Container]) -> dict[str, str]:
    """Return the names of containers by id, without those that are unknown."""
    readers: dict[int | None, _Reader] = {}
    found: dict[str, str] = {}
    # Root's containers first, so that no user can name one of them.
    for use in sorted(uses, key=lambda use: -1 if use.user is None else use.user):
        if use.container_id not in found:
            found[use.container_id] = _find_name(use, readers.setdefault(use.user, _Reader(use.user)))
    return {container_id: name for container_id, name in found.items() if name}


def find_pod_titles(uses: Iterable[Container]) -> dict[str, str]:
    """Return namespace and name of the pods of root's containers, by the container's id; safe for a sentence."""
    # What a user's engine writes about pods proves nothing.
    found = {use.container_id: find_pod_title(use) for use in uses if use.user is None}
    return {container_id: title for container_id, title in found.items() if title}


def find_pod_title(use: Container | Lease) -> str:
    """Return namespace and name of the pod of a container of root, "" if it has none."""
    spec = read_of_root(f"{use.bundle}/config.json") if use.bundle and OF_DOCKER not in use.bundle else None
    annotations = as_object(as_object(spec).get("annotations"))
    titles = ([_name(annotations.get(name)) for name in names] for names in POD_ANNOTATIONS)
    return next((printable("/".join(title)) for title in titles if all(title)), "")


def find_container_name(use: Container | Lease) -> str:
    """Return the name of one container, safe for a sentence, "" if it is unknown."""
    # A lease has no `user`: only leases of root are passed here.
    return printable(_find_name(use, _Reader(getattr(use, "user", None))))


def find_container_image(lease: Lease) -> str:
    """Return the image of a container of root by its engine's name, "" if it is unknown."""
    reader = _Reader(None)
    spec = reader.read(f"{lease.bundle}/config.json") if lease.bundle else None
    annotations = as_object(as_object(spec).get("annotations"))
    written = as_object(as_object(_docker_file(spec, lease, reader)).get("Config")).get("Image")
    return printable(_name(annotations.get(IMAGE_ANNOTATION)) or _name(written))


def read_of_root(path: str) -> Any:
    """Return a JSON document of root's engines, None if there is none."""
    return _Reader(None).read(path)


def docker_directory(spec: Any, container_id: str) -> str:
    """Return dockerd's directory of a container, where the mounted hosts file is; "" for other engines."""
    sources = (str(as_object(mount).get("source", "")) for mount in _list(as_object(spec).get("mounts")))
    directories = map(os.path.dirname, sources)
    return next((directory for directory in directories if os.path.basename(directory) == container_id), "")


def as_object(value: Any) -> dict[str, Any]:
    """Return a JSON object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


class _Reader:
    """Reads engines' files about the containers of root, or, within limits, about those of a user."""

    def __init__(self, user: int | None) -> None:
        self._files = None if user is None else UserFiles(user, most_bytes=MOST_BYTES_OF_A_USER)
        self._podman_names: dict[str, dict[str, str]] = {}

    def read(self, path: str) -> Any:
        """Return a JSON document, None if there is none."""
        try:
            if self._files is None:
                return loads(read_plain_file(path, largest=LARGEST_NAMES_FILE)[0])
            return loads(self._files.read_in_child(path, LARGEST_BYTES_OF_USERS))
        except (OSError, RecursionError, ValueError):
            return None

    def podman_names(self, path: str) -> dict[str, str]:
        """Return the names in one of Podman's lists by id; it is read once for all containers in it."""
        if path not in self._podman_names:
            containers = map(as_object, _list(self.read(path)))
            names = {str(each.get("id")): _name(next(iter(_list(each.get("names"))), "")) for each in containers}
            self._podman_names[path] = names
        return self._podman_names[path]


def _find_name(use: Container | Lease, reader: _Reader) -> str:
    if not use.bundle:
        return ""
    spec = reader.read(f"{use.bundle}/config.json")
    annotations = as_object(as_object(spec).get("annotations"))
    annotated = next((_name(annotations[name]) for name in NAME_ANNOTATIONS if name in annotations), "")
    by_docker = "" if annotated else _name(as_object(_docker_file(spec, use, reader)).get("Name")).lstrip("/")
    return annotated or by_docker or _podman_name(use, reader)


def _docker_file(spec: Any, use: Container | Lease, reader: _Reader) -> Any:
    # For a container that has ended, but whose GPUs are kept, `bundle` is this directory.
    directory = docker_directory(spec, use.container_id) if spec else use.bundle
    return reader.read(f"{directory}/config.v2.json") if directory else None


def _podman_name(use: Container | Lease, reader: _Reader) -> str:
    # <graph root>/overlay-containers/<id>/userdata
    containers = os.path.dirname(os.path.dirname(use.bundle))
    lists = (reader.podman_names(f"{containers}/{name}") for name in PODMAN_LISTS)
    return next((names[use.container_id] for names in lists if use.container_id in names), "")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _name(value: Any) -> str:
    return value[:LONGEST_CONTAINER_NAME] if isinstance(value, str) else ""
