"""All facts of a host, and how to read them at once."""

from __future__ import annotations

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor

from amd_ctk.cdi.engine_directories import find_own_directories, read_all_spec_files
from amd_ctk.doctor.facts.cdi import CdiFacts, read_cdi
from amd_ctk.doctor.facts.containers import (
    StaleContainer,
    UnstartedContainer,
    find_stale,
    find_unstarted,
    read_containers,
)
from amd_ctk.doctor.facts.docker import DockerFacts, read_docker
from amd_ctk.doctor.facts.engine_files import EngineFileFacts, PodmanFacts, read_containerd, read_podman
from amd_ctk.doctor.facts.gpus import GpuCondition, GpuFacts, read_conditions, read_gpus
from amd_ctk.doctor.facts.inside import InsideFacts, read_inside
from amd_ctk.doctor.facts.kernel import KernelFacts, PackageFacts, read_kernel, read_packages
from amd_ctk.doctor.facts.slurm import JobFacts, SlurmFacts, read_jobs, read_slurm
from amd_ctk.doctor.facts.toolkit import ToolkitFacts, read_toolkit
from amd_ctk.doctor.facts.users import User
from amd_ctk.doctor.inside.nodes import TriedNode
from amd_ctk.engines.docker import FIRST_GPUS_BY_CDI, FIRST_WITH_GPUS
from amd_ctk.engines.engine_answers import ENGINE_SECONDS
from amd_ctk.explain.running import EngineAnswers, ask_engines
from amd_device_spec.slurm_job import NODE
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# A container gets at least this long to answer if engines have used up the time. It needs a tenth of that.
LEAST_SECONDS = 0.3
# The length of a whole container id, and of the part that engines show.
WHOLE_ID = 64
SHORT_ID = 12


class BrokenHost(Host):
    """A host on which directories that are closed to this user, and circular links, count as missing."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, [] if it cannot be listed."""
        try:
            return super().names(path)
        except OSError:
            return []

    def stat(self, path: str) -> os.stat_result | None:
        """Return the status of the file that `path` leads to, None if it is unknown."""
        try:
            return super().stat(path)
        except OSError:
            return None


class Facts(Value):
    """Everything that is known about a host."""

    kernel: KernelFacts
    gpus: GpuFacts
    docker: DockerFacts
    cdi: CdiFacts
    toolkit: ToolkitFacts
    podman: PodmanFacts = PodmanFacts()
    containerd: EngineFileFacts = EngineFileFacts()
    slurm: SlurmFacts = SlurmFacts()
    # None if they could not be read.
    jobs: JobFacts | None = JobFacts()
    packages: PackageFacts = PackageFacts()
    conditions: tuple[GpuCondition, ...] = ()
    # None if they could not be read.
    stale_containers: tuple[StaleContainer, ...] | None = ()
    unstarted_containers: tuple[UnstartedContainer, ...] = ()
    # The container that the user named.
    inside: InsideFacts | None = None

    @property
    def container(self) -> InsideFacts:
        """Return the container that the user named, an empty one if there is none."""
        return self.inside or InsideFacts(name="")

    @property
    def container_name(self) -> str:
        """Return the name of the container for use in a sentence."""
        name = self.container.name
        return f"container {name[:SHORT_ID] if len(name) == WHOLE_ID else name}"

    @property
    def takes_cdi(self) -> bool:
        """Return whether Docker's `--gpus` gives AMD's CDI devices: CDI is on, and there are no NVIDIA devices."""
        docker, cdi = self.docker, self.cdi
        return docker.version >= FIRST_GPUS_BY_CDI and docker.has_cdi and bool(cdi.paths) and not cdi.has_nvidia

    @property
    def ignored_gpus_option(self) -> str:
        """Return why `--gpus` had no effect on the container; "" if it may have had one, or was not given."""
        docker, container = self.docker, self.container
        if not container.asks_gpus or not docker.version or any(node.major is not None for node in container.nodes):
            return ""
        if docker.version < FIRST_WITH_GPUS:
            return f"Docker {docker.version_text} has no --gpus for AMD"
        if not self.takes_cdi and container.runtime not in (docker.file_runtimes or ("amd",)):
            return f"it runs under {container.runtime}"
        return ""

    @property
    def permitted_nodes(self) -> list[TriedNode]:
        """Return the nodes that the container may open, even without a driver: the kernel checks permissions first."""
        return self.nodes_with(0, errno.ENXIO, errno.ENODEV)

    @property
    def gpus_inside(self) -> list[Gpu]:
        """Return the GPUs whose render nodes the container has."""
        minors = {node.minor for node in self.container.nodes if node.path.startswith("/dev/dri/")}
        return [gpu for gpu in self.gpus.gpus if gpu.render_minor in minors]

    def nodes_with(self, *numbers: int | None) -> list[TriedNode]:
        """Return the nodes with one of these errno values: 0 for those that opened, None for those not tried."""
        return [node for node in self.container.nodes if node.errno in numbers]


def read_facts(
    host: Host, *, container: str = "", engine: str = "", user: User | None = None, proc: str = "/proc"
) -> Facts:
    """Read all facts of a host and, if one is named, of a `container`; NoContainer if it is not found.

    With an `engine`, other engines are not asked. `user` is the owner of the rootless containers to look at. Threads
    ask the programs that may be slow, and whatever forks runs before or after them: a child of a process with threads
    can hang. Engines and then the container share ENGINE_SECONDS, so that the command ends within nine seconds even if
    nothing answers.
    """
    elsewhere = dict(find_own_directories(BrokenHost(host.root)))
    specs = read_all_spec_files(host, [each for directories in elsewhere.values() for each in directories])
    host = BrokenHost(host.root)
    toolkit, jobs, containers = read_toolkit(host), read_jobs(host, proc), read_containers(host)
    with ThreadPoolExecutor(max_workers=2) as pool:
        docker = pool.submit(read_docker, host, user) if engine in ("", "docker") else None
        answering = pool.submit(ask_engines, container) if container else None
        gpus = read_gpus(host)
        facts = Facts(
            kernel=read_kernel(host, proc),
            gpus=gpus,
            cdi=read_cdi(host, specs),
            toolkit=toolkit,
            stale_containers=None if containers is None else find_stale(containers, gpus),
            unstarted_containers=find_unstarted(containers or (), host),
            podman=read_podman(host, user, is_chosen=engine == "podman"),
            containerd=read_containerd(host),
            slurm=read_slurm(host, gpus.gpus),
            jobs=jobs,
            packages=read_packages(host),
            docker=DockerFacts(),
        )
        begin = time.monotonic()
        facts = facts.replace(docker=docker.result()) if docker else facts
        answers = answering.result() if answering else EngineAnswers()
    seconds = seconds_left(time.monotonic() - begin)
    # Both functions fork.
    facts = facts.replace(conditions=read_conditions(host))
    return add_inside(host, facts, read_inside(host, container, answers, seconds=seconds)) if container else facts


def add_inside(host: Host, facts: Facts, inside: InsideFacts) -> Facts:
    """Return facts with those of a container. Its job may know this node by another name than the kernel does."""
    node = inside.variables.get(NODE, "")
    slurm = read_slurm(host, facts.gpus.gpus, node) if node else facts.slurm
    return facts.replace(inside=inside, slurm=slurm)


def seconds_left(waited: float) -> float:
    """Return how long a container may take to answer, after the wait for engines."""
    return max(LEAST_SECONDS, ENGINE_SECONDS - waited)
