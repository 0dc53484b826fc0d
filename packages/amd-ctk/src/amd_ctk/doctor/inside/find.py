"""Find the first process of a container."""

from __future__ import annotations

from amd_ctk.explain.running import Asked, find_running
from amd_gpu_tracker.life.processes import Processes
from amd_gpu_tracker.records.lease import ProcessId
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import read_file
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value


class NoContainer(ToolkitError):
    """A name, id or process id that belongs to no running container."""

    exit_code = 2


class Found(Value):
    """A container and its first process, None where it does not run."""

    container_id: str
    process: ProcessId | None


def find_first_process(host: Host, name: str, asked: Asked) -> Found:
    """Return the id and the first process of a container by name, id or process id; NoContainer.

    `asked` is what engines said of the name.
    """
    processes = Processes()
    process = processes.find(int(name[:10])) if name.isascii() and name.isdecimal() else None
    if process:
        return Found(container_id=name, process=process)
    running = find_running(host, name, asked.told)
    if running:
        return Found(container_id=running.container_id, process=running.init)
    for one in asked.told:
        # An engine of another machine, or of a virtual one, counts other processes.
        process = processes.find(one.pid)
        if process and one.container_id in _read_cgroups(one.pid):
            return Found(container_id=one.container_id, process=process)
    for one in asked.told:
        if one.pid == 0:
            return Found(container_id=one.container_id, process=None)
    late = f"; {asked.late}" if asked.late else ""
    raise NoContainer(f"no container {name} is running here{late}", hint="name it by its id or its process id, as root")


def _read_cgroups(pid: int) -> str:
    try:
        return read_file(f"/proc/{pid}/cgroup").decode("utf-8", "replace")
    except OSError:
        return ""
