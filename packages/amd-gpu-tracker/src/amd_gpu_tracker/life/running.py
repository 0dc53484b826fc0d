"""Which containers of root run, told by what their runtimes wrote down.

A state counts where it is root's own file and its init, with that start time, is running. What only processes or files
of other users say is not believed, and nothing below /run/user is looked at.
"""

from __future__ import annotations

import errno
import os
import posix
from contextlib import suppress

from amd_gpu_tracker.life.engine_processes import find_runtime_roots
from amd_gpu_tracker.life.liveness import DEFAULT_ROOTS, STATE_FILES
from amd_gpu_tracker.records.lease import ProcessId
from amdgpu_discovery.files import FILE_TYPE, REGULAR_FILE
from amdgpu_discovery.plain_json import loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from amd_gpu_tracker.life.processes import Processes
    from amdgpu_discovery.host import Host

# Where Docker and containerd tell their runtimes to keep state, below directories for runtimes and namespaces.
DOCKER_ROOTS = "/run/docker"
CONTAINERD_ROOTS = "/run/containerd/runc"
# Of a runtime's state or a bundle's config.json, many times what they come to.
LARGEST_BYTES = 16 * 1024 * 1024
OTHERS_MAY_WRITE = 0o022


class RunningContainer(Value):
    """A container whose init runs.

    Attributes:
        container_id: Its id.
        root: The `--root` of its runtime; "" for the default.
        bundle: Directory of its config.json.
        init: Its first process.
    """

    container_id: str
    root: str
    bundle: str
    init: ProcessId

    @property
    def user(self) -> None:
        """Return the owner of a rootless container; root's have none."""

    def created_at(self, host: Host) -> float | None:
        """Return when a container was created that was never started, in seconds since 1970; None for any other."""
        for directory in _state_directories(self.root, host):
            # runc and crun make this pipe at `create`, and `start` removes it.
            with suppress(OSError):
                return os.stat(f"{directory}/{self.container_id}/exec.fifo").st_mtime
        return None


def find_running_containers(host: Host, processes: Processes) -> list[RunningContainer]:
    """Return the containers of root that run on this host by its `processes`, in the order of their ids."""
    # What engines say comes first: it is how they will call a runtime again.
    roots = [*find_runtime_roots(host, processes), *_usual_roots(host)]
    by_directory = {os.path.realpath(root or directory): root for root, directory in _with_directories(host, roots)}
    found = [
        container
        for directory, root in by_directory.items()
        for name in _names(directory)
        if (container := _read(directory, name, root, processes))
    ]
    return sorted(found, key=lambda container: (container.container_id, container.root))


def read_own_file(path: str) -> bytes:
    """Return the content of a file that only the caller's user can have written; OSError."""
    descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NONBLOCK | posix.O_NOFOLLOW)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        is_own = found.st_uid == os.geteuid() and not found.st_mode & OTHERS_MAY_WRITE
        if found.st_mode & FILE_TYPE != REGULAR_FILE or not is_own:
            raise OSError(errno.EINVAL, "others may write it, or it is not a plain file")
        if found.st_size > LARGEST_BYTES:
            raise OSError(errno.EFBIG, "it is too large")
        return file.read(LARGEST_BYTES)


def _usual_roots(host: Host) -> list[str]:
    docker = [f"{DOCKER_ROOTS}/{name}" for name in _listed(host, DOCKER_ROOTS) if name.startswith("runtime-")]
    parents = (*docker, CONTAINERD_ROOTS)
    return ["", *(host.path(f"{parent}/{name}") for parent in parents for name in _listed(host, parent))]


def _listed(host: Host, directory: str) -> list[str]:
    """Return the names in an engine's directory; none for a user whom the engine does not let look (Docker 20.10)."""
    try:
        return host.names(directory)
    except PermissionError:
        return []


def _with_directories(host: Host, roots: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return roots with their directories, so that the first mention of a directory is the last here and counts."""
    for root in reversed(list(roots)):
        yield from ((root, directory) for directory in _state_directories(root, host))


def _state_directories(root: str, host: Host) -> list[str]:
    """Return where runtimes keep the state of containers under a `--root`, "" for their default ones."""
    return [root] if root else [host.path(usual) for usual in DEFAULT_ROOTS]


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _read(directory: str, name: str, root: str, processes: Processes) -> RunningContainer | None:
    for file, pid, start in STATE_FILES:
        try:
            state = loads(read_own_file(f"{directory}/{name}/{file}"))
            init = ProcessId(pid=int(state[pid]), start=int(state[start]))
            bundle = _bundle(state)
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            continue
        if processes.is_running(init):
            return RunningContainer(container_id=name, root=root, bundle=bundle, init=init)
    return None


def _bundle(state: dict[str, Any]) -> str:
    """Return the bundle: crun writes it down as such, runc as a label of its configuration."""
    if "bundle" in state:
        return str(state["bundle"])
    labels = [str(label) for label in state["config"]["labels"]]
    return next((label.partition("=")[2] for label in labels if label.startswith("bundle=")), "")
