"""Processes of container engines: those that watch over containers, and runtimes that are making one.

Any user can name a process freely and give it any arguments. So only those of the caller's own user count, which
is root's wherever it matters, with the program they really run, and only those that see the files that the caller sees.
"""

from __future__ import annotations

import os

from amdgpu_discovery.host import ROOT_VARIABLE
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.plain_json import loads
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lease import ProcessId
    from amdgpu_discovery.host import Host

# containerd's shims, and the monitor of Podman and CRI-O. A runtime may itself wait for the container it runs.
SHIM = "containerd-shim"
CONMON = "conmon"
RUNTIMES = ("runc", "crun", "amd-container-runtime")
STARTING = ("create", "run", "restore")
# Where a shim keeps its runtime's state unless its options.json names another directory.
SHIM_ROOT = "/run/containerd/runc"
LARGEST_OPTIONS_BYTES = 64 * 1024


class Creation(Value):
    """A runtime that is making a container."""

    process: ProcessId
    container_id: str


def find_runtime_roots(host: Host, processes: Processes) -> list[str]:
    """Return the directories of runtimes' state that the processes of engines name, as their runtimes are told them."""
    found = [pid for pid in processes.pids() if _is_engines(processes, pid) and _serves(processes, pid, host)]
    roots = (_root_of(processes, pid) for pid in found)
    return list(dict.fromkeys(root for root in roots if root))


def find_creations(host: Host, processes: Processes) -> list[Creation]:
    """Return the runtimes that are making containers now."""
    trusted = (pid for pid in processes.pids() if processes.is_trusted(pid))
    return [creation for pid in trusted if (creation := _creation(processes, pid)) and _serves(processes, pid, host)]


def find_strangers(host: Host, processes: Processes) -> dict[int, int]:
    """Return by user how many processes watch over containers that we do not believe or cannot follow."""
    strangers: dict[int, int] = {}
    for pid in processes.pids():
        is_monitor = _program(processes, pid).startswith((SHIM, CONMON))
        if is_monitor and not processes.is_trusted(pid) and _serves(processes, pid, host):
            uid = processes.uid(pid)
            strangers[uid] = strangers.get(uid, 0) + 1
    return strangers


def _is_engines(processes: Processes, pid: int) -> bool:
    program = _program(processes, pid)
    is_known = program.startswith(SHIM) or program in (CONMON, *RUNTIMES)
    return is_known and processes.is_trusted(pid)


def _serves(processes: Processes, pid: int, host: Host) -> bool:
    """Return whether an engine's runtime, which inherits its environment, serves this host."""
    return (processes.variable(pid, ROOT_VARIABLE) or "/") == host.root


def _program(processes: Processes, pid: int) -> str:
    # A program that was replaced by an upgrade goes on under its old name.
    return os.path.basename(processes.link(pid, "exe").removesuffix(" (deleted)"))


def _root_of(processes: Processes, pid: int) -> str:
    words, program = processes.words(pid), _program(processes, pid)
    if program.startswith(SHIM):
        namespace = _option(words, "namespace")
        return f"{_shim_root(processes.link(pid, 'cwd'))}/{namespace}" if namespace else ""
    if program == CONMON:
        words = [*words[:1], *_options(words, "runtime-arg")]
    return _option(words, "root")


def _shim_root(bundle: str) -> str:
    try:
        options = loads(read_plain_file(f"{bundle}/options.json", largest=LARGEST_OPTIONS_BYTES)[0])
        return str(options.get("root") or SHIM_ROOT)
    except (OSError, ValueError, AttributeError):
        return SHIM_ROOT


def _creation(processes: Processes, pid: int) -> Creation | None:
    words = processes.words(pid)
    command = next((position for position, word in enumerate(words) if word in STARTING), 0)
    is_runtime = any(os.path.basename(word) in RUNTIMES for word in words[:command])
    if not is_runtime or not (_option(words[command:], "bundle") or _option(words[command:], "b")):
        return None
    process = processes.find(pid)
    return Creation(process=process, container_id=words[-1]) if process else None


def _option(words: list[str], name: str) -> str:
    return next(iter(_options(words, name)), "")


def _options(words: list[str], name: str) -> list[str]:
    """Return the values of an option that is written `--name value`, `--name=value` or with one dash."""
    found = []
    for position, word in enumerate(words[1:], 1):
        option, equals, value = word.lstrip("-").partition("=")
        if option == name and word.startswith("-"):
            found += [value] if equals else words[position + 1 : position + 2]
    return found
