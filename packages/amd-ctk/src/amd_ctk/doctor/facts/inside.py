"""A container from inside: its first process, its GPU nodes, and what its image has."""

from __future__ import annotations

import os
import time

from amd_ctk.doctor.inside.child import NoAnswer, ask_inside
from amd_ctk.doctor.inside.image_files import find_home, is_above_cache, read_image_files
from amd_ctk.doctor.inside.nodes import TriedNode, try_nodes
from amd_ctk.doctor.inside.process import CannotEnter, ContainerProcess, read_process, require_running, start_time
from amd_ctk.explain.running import EngineAnswers, find_running
from amd_ctk.rocm_variables import BEGINNINGS
from amd_device_spec.slurm_job import GPUS, JOB_ID, NODE
from amd_gpu_tracker import Processes, ProcessId
from amdgpu_discovery.driver.device_nodes import read_kfd_number
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.files import read_file
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.mounts import read_mounts
from amdgpu_discovery.value import Value

NUMA_NODES = "/sys/devices/system/node"
HOW_TO_NAME = "give a name or an id of 'sudo docker ps' or 'sudo podman ps', or a process id, with sudo"
SLURM_VARIABLES = (JOB_ID, NODE, *GPUS)
VARIABLES = ("HOME", *SLURM_VARIABLES)


class NoContainer(ToolkitError):
    """A name, id or process id that belongs to no running container."""

    exit_code = 2


class FoundContainer(Value):
    """A container and its first process, None if it is not running."""

    container_id: str
    process: ProcessId | None


def find_first_process(host: Host, name: str, answers: EngineAnswers) -> FoundContainer:
    """Return the id and the first process of a container by name, id or process id; NoContainer if not found.

    `answers` holds the answers of engines about the name.
    """
    processes = Processes()
    process = processes.find(int(name[:10])) if name.isascii() and name.isdecimal() else None
    if process:
        return FoundContainer(container_id=name, process=process)
    running = find_running(host, name, answers.containers)
    if running:
        return FoundContainer(container_id=running.container_id, process=running.init)
    for one in answers.containers:
        # An engine on another machine, or on a virtual one, has other process ids.
        process = processes.find(one.pid)
        if process and one.container_id in _read_cgroups(one.pid):
            return FoundContainer(container_id=one.container_id, process=process)
    for one in answers.containers:
        if one.pid == 0:
            return FoundContainer(container_id=one.container_id, process=None)
    late = f"; {answers.late}" if answers.late else ""
    raise NoContainer(f"no container {name} is running here{late}", hint=HOW_TO_NAME)


def _read_cgroups(pid: int) -> str:
    try:
        return read_file(f"/proc/{pid}/cgroup").decode("utf-8", "replace")
    except OSError:
        return ""


class ImageFacts(Value):
    """What a container's files have of ROCm; `shared_memory` is the size of /dev/shm, None if there is none."""

    rocm_version: str = ""
    targets: tuple[str, ...] = ()
    has_lsmod: bool = True
    # Whether the image's rocminfo calls lsmod.
    asks_lsmod: bool = False
    # Caches into which kernels were compiled since the container started.
    compiled: tuple[str, ...] = ()
    has_rccl: bool = False
    shared_memory: int | None = None
    has_infiniband: bool = False

    @property
    def has_rocm(self) -> bool:
        """Return whether the image has any part of ROCm."""
        return bool(self.rocm_version or self.targets)


class InsideFacts(Value):
    """One container; `problem` is why doctor did not look inside, and `needs` what that requires."""

    # As the user gave it.
    name: str
    container_id: str = ""
    problem: str = ""
    needs: str = ""
    process: ContainerProcess = ContainerProcess(identity=ProcessId(pid=0, start=0), uid=0, gid=0)
    nodes: tuple[TriedNode, ...] = ()
    image: ImageFacts = ImageFacts()
    variables: dict[str, str] = {}  # noqa: RUF012 - a default of a value, which is never changed
    # Mount points at or above a cache of kernels; there, files are not in the image's own file system.
    mount_points: tuple[str, ...] = ()
    # False on a simulated host, where no driver answers behind the nodes.
    has_driver: bool = True
    numa_nodes: int = 1
    # The runtime that the engine reports, "" if it reports none; and whether the container was given `--gpus`.
    runtime: str = ""
    asks_gpus: bool = False


def read_inside(host: Host, name: str, engines: EngineAnswers, *, seconds: float) -> InsideFacts:
    """Look at a container from inside; NoContainer if not found. This forks: call it while there are no threads.

    `engines` holds their answers about the name. Looking inside takes at most `seconds`.
    """
    deadline = time.monotonic() + seconds
    found = find_first_process(host, name, engines)
    known = next((one for one in engines.containers if one.container_id == found.container_id), None)
    facts = InsideFacts(
        name=name,
        container_id=found.container_id,
        has_driver=host.is_this_machine,
        numa_nodes=sum(entry.startswith("node") for entry in host.names(NUMA_NODES)) or 1,
        runtime=known.runtime if known else "",
        asks_gpus=bool(known and known.asks_gpus),
    )
    if found.process is None:
        return facts.replace(problem=f"container {name} is not running", needs="a running container")
    if os.geteuid() != 0:
        return facts.replace(problem=f"container {name} from inside", needs="root")
    try:
        return _read_container(facts, found.process, read_kfd_number(host), deadline)
    except (OSError, CannotEnter, NoAnswer) as error:
        has_ended = isinstance(error, (FileNotFoundError, ProcessLookupError))
        needs = "a running container" if has_ended else "a container that can be entered"
        return facts.replace(problem=f"container {name}: {reason(error)}", needs=needs)


def _read_container(facts: InsideFacts, first: ProcessId, kfd: tuple[int, int] | None, deadline: float) -> InsideFacts:
    process = read_process(first)
    nodes = ask_inside(process, lambda own_files: {"nodes": try_nodes(kfd, own_files)}, deadline)["nodes"]
    variables = read_variables(first.pid)
    home = find_home(variables)
    found = facts.replace(
        process=process,
        nodes=tuple(TriedNode(**node) for node in nodes),
        image=_read_image(process, home, deadline),
        variables=variables,
        mount_points=tuple(point for point in read_mount_points(first.pid) if is_above_cache(point, home)),
    )
    require_running(first)
    return found


def read_variables(pid: int, processes: Processes | None = None) -> dict[str, str]:
    """Return the variables of a container's first process that doctor uses. Those of ROCm are there if they are set.

    Podman and runc do not pass their own environment to the container. If the container does not name its Slurm job,
    the process above does: conmon, or a runtime that waits.
    """
    processes = processes or Processes()
    variables = {**processes.variables(pid, VARIABLES), **processes.variables_named(pid, BEGINNINGS)}
    for above in processes.ancestors(pid, 2)[1:]:
        if not any(variables[name] for name in SLURM_VARIABLES):
            variables |= processes.variables(above.pid, SLURM_VARIABLES)
    return variables


def _read_image(process: ContainerProcess, home: str, deadline: float) -> ImageFacts:
    start = start_time(process.identity)
    try:
        found = ask_inside(process, lambda own_files: read_image_files(own_files, home=home, start=start), deadline)
    except NoAnswer:
        return ImageFacts()
    return ImageFacts.from_json(found)


def read_mount_points(pid: int) -> tuple[str, ...]:
    """Return the mount points of a process; OSError."""
    return tuple(mount.point.decode("utf-8", "replace") for mount in read_mounts(f"/proc/{pid}/mountinfo"))
