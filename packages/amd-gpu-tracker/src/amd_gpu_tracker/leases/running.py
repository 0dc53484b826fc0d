"""Find root's containers that run or are being made, from the files of their runtimes and processes of engines.

A state counts if it is root's own file and its init, with that start time, is running. Claims of other users' processes
or files do not count, and nothing below /run/user is read.

Any user can give a process any name and arguments. So engines' processes count only by the program that they really
run, if they belong to the caller's user, which is root wherever it matters, and see the caller's files.
"""

from __future__ import annotations

import errno
import os
import posix
from contextlib import suppress

from amd_gpu_tracker.book.lease import ProcessId
from amd_gpu_tracker.leases.cgroup import names_in
from amd_gpu_tracker.leases.liveness import DEFAULT_ROOTS, STATE_FILES
from amd_gpu_tracker.leases.processes import option_in, options_in
from amdgpu_discovery.files import FILE_TYPE, REGULAR_FILE
from amdgpu_discovery.host import ROOT_VARIABLE, Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from amd_gpu_tracker.leases.processes import Processes

# Where Docker and containerd let their runtimes keep state, below directories for runtimes and namespaces. The
# options.json of a shim may name another directory.
DOCKER_ROOTS = "/run/docker"
CONTAINERD_ROOTS = "/run/containerd/runc"
# Limit for a runtime's state or a bundle's config.json, many times their usual size.
LARGEST_STATE_FILE = 16 * 1024 * 1024
OTHERS_MAY_WRITE = 0o022
# containerd's shims, and the monitor of Podman and CRI-O. A runtime may itself wait for the container that it runs.
SHIM = "containerd-shim"
CONMON = "conmon"
RUNTIMES = ("runc", "crun", "amd-container-runtime")
STARTING = ("create", "run", "restore")
LARGEST_OPTIONS_BYTES = 64 * 1024


class RunningContainer(Value):
    """A container whose init is running.

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
        """Return when a container that was never started was created, in seconds since 1970; None for any other."""
        for directory in _state_directories(self.root, host):
            # runc and crun make this pipe at `create`, and `start` removes it.
            with suppress(OSError):
                return os.stat(f"{directory}/{self.container_id}/exec.fifo").st_mtime
        return None


def find_running_containers(host: Host, processes: Processes) -> list[RunningContainer]:
    """Return the containers of root that run on this host, found in its `processes`, sorted by id."""
    # The engines' own words first: with these they will call a runtime again.
    roots = [*find_runtime_roots(host, processes), *_usual_roots(host)]
    by_directory = {os.path.realpath(root or directory): root for root, directory in _with_directories(host, roots)}
    found = [
        container
        for directory, root in by_directory.items()
        for name in names_in(directory)
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
        if found.st_size > LARGEST_STATE_FILE:
            raise OSError(errno.EFBIG, "it is too large")
        return file.read(LARGEST_STATE_FILE)


def _usual_roots(host: Host) -> list[str]:
    docker = [f"{DOCKER_ROOTS}/{name}" for name in _listed(host, DOCKER_ROOTS) if name.startswith("runtime-")]
    parents = (*docker, CONTAINERD_ROOTS)
    return ["", *(host.path(f"{parent}/{name}") for parent in parents for name in _listed(host, parent))]


def _listed(host: Host, directory: str) -> list[str]:
    """Return the names in an engine's directory; none if the user may not list it (Docker 20.10)."""
    try:
        return host.names(directory)
    except PermissionError:
        return []


def _with_directories(host: Host, roots: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield roots with their directories in reverse, so that for each directory the first root is last and counts."""
    for root in reversed(list(roots)):
        yield from ((root, directory) for directory in _state_directories(root, host))


def _state_directories(root: str, host: Host) -> list[str]:
    """Return where runtimes keep the state of containers under a `--root`, "" for their default ones."""
    return [root] if root else [host.path(usual) for usual in DEFAULT_ROOTS]


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
    """Return the bundle: crun writes it as such, runc as a label of its configuration."""
    if "bundle" in state:
        return str(state["bundle"])
    labels = [str(label) for label in state["config"]["labels"]]
    return next((label.partition("=")[2] for label in labels if label.startswith("bundle=")), "")


class Creation(Value):
    """A runtime that is making a container."""

    process: ProcessId
    container_id: str


def find_runtime_roots(host: Host, processes: Processes) -> list[str]:
    """Return the runtimes' state directories that engines' processes name, as they pass them to the runtimes."""
    found = [pid for pid in processes.pids() if _is_engines(processes, pid) and _serves(processes, pid, host)]
    roots = (_root_of(processes, pid) for pid in found)
    return list(dict.fromkeys(root for root in roots if root))


def find_creations(host: Host, processes: Processes) -> list[Creation]:
    """Return the runtimes that are making containers now."""
    trusted = (pid for pid in processes.pids() if processes.is_trusted(pid))
    return [creation for pid in trusted if (creation := _creation(processes, pid)) and _serves(processes, pid, host)]


def count_untracked(host: Host, processes: Processes) -> dict[int, int]:
    """Return by user how many processes monitor containers that the tracker does not trust or cannot follow."""
    monitors = [pid for pid in processes.pids() if _program(processes, pid).startswith((SHIM, CONMON))]
    roots = processes.variable_of([pid for pid in monitors if not processes.is_trusted(pid)], ROOT_VARIABLE)
    counts: dict[int, int] = {}
    for uid in (processes.uid(pid) for pid, root in roots.items() if (root or "/") == host.root):
        counts[uid] = counts.get(uid, 0) + 1
    return counts


def _is_engines(processes: Processes, pid: int) -> bool:
    program = _program(processes, pid)
    is_known = program.startswith(SHIM) or program in (CONMON, *RUNTIMES)
    return is_known and processes.is_trusted(pid)


def _serves(processes: Processes, pid: int, host: Host) -> bool:
    """Return whether an engine's runtime, which inherits its environment, serves this host."""
    return (processes.variable(pid, ROOT_VARIABLE) or "/") == host.root


def _program(processes: Processes, pid: int) -> str:
    # A program that an upgrade replaced continues to run under its old name.
    return os.path.basename(processes.link(pid, "exe").removesuffix(" (deleted)"))


def _root_of(processes: Processes, pid: int) -> str:
    words = processes.words(pid)
    program = _program(processes, pid)
    if program.startswith(SHIM):
        namespace = option_in(words, "namespace")
        return f"{_shim_root(processes.link(pid, 'cwd'))}/{namespace}" if namespace else ""
    if program == CONMON:
        words = [*words[:1], *options_in(words, "runtime-arg")]
    return option_in(words, "root")


def _shim_root(bundle: str) -> str:
    try:
        options = loads(read_plain_file(f"{bundle}/options.json", largest=LARGEST_OPTIONS_BYTES)[0])
        return str(options.get("root") or CONTAINERD_ROOTS)
    except (OSError, ValueError, AttributeError):
        return CONTAINERD_ROOTS


def _creation(processes: Processes, pid: int) -> Creation | None:
    words = processes.words(pid)
    command = next((position for position, word in enumerate(words) if word in STARTING), 0)
    is_runtime = any(os.path.basename(word) in RUNTIMES for word in words[:command])
    if not is_runtime or not any(options_in(words[command:], "bundle", "b")):
        return None
    process = processes.find(pid)
    return Creation(process=process, container_id=words[-1]) if process else None
