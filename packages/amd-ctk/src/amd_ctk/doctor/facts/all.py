"""All facts of a host, and how they are read at once."""

from __future__ import annotations

import errno
import os
import time
from concurrent.futures import ThreadPoolExecutor

from amd_ctk.cdi.engine_devices import read_spec_files
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
from amd_ctk.explain.running import SECONDS, EngineAnswers, ask_engines
from amd_device_spec.slurm_job import NODE
from amdgpu_discovery.gpu import Gpu
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

# What a container gets where an engine has used up the time; it answers in a tenth of that.
LEAST_SECONDS = 0.3
# Of a whole id, and of what engines show of it.
WHOLE_ID = 64
SHORT_ID = 12


class BrokenHost(Host):
    """A host whose directories may be closed to this user, or links that lead in a circle: nothing is found there."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, [] where it cannot be listed."""
        try:
            return super().names(path)
        except OSError:
            return []

    def stat(self, path: str) -> os.stat_result | None:
        """Return what `path` leads to, None if that is unknown."""
        try:
            return super().stat(path)
        except OSError:
            return None


class Facts(Value):
    """What is known of a host."""

    kernel: KernelFacts
    gpus: GpuFacts
    docker: DockerFacts
    cdi: CdiFacts
    toolkit: ToolkitFacts
    podman: PodmanFacts = PodmanFacts()
    containerd: EngineFileFacts = EngineFileFacts()
    slurm: SlurmFacts = SlurmFacts()
    # None where they could not be read.
    jobs: JobFacts | None = JobFacts()
    packages: PackageFacts = PackageFacts()
    conditions: tuple[GpuCondition, ...] = ()
    # None where they could not be read.
    stale_containers: tuple[StaleContainer, ...] | None = ()
    unstarted_containers: tuple[UnstartedContainer, ...] = ()
    # Of the one container that was asked about.
    inside: InsideFacts | None = None

    @property
    def container(self) -> InsideFacts:
        """Return the container that was asked about, one without anything where none was."""
        return self.inside or InsideFacts(name="")

    @property
    def container_name(self) -> str:
        """Return the container as sentences name it."""
        name = self.container.name
        return f"container {name[:SHORT_ID] if len(name) == WHOLE_ID else name}"

    @property
    def takes_cdi(self) -> bool:
        """Return whether Docker's `--gpus` is a CDI device of AMD: not beside those of NVIDIA, nor with CDI off."""
        docker, cdi = self.docker, self.cdi
        return docker.version >= FIRST_GPUS_BY_CDI and docker.has_cdi and bool(cdi.paths) and not cdi.has_nvidia

    @property
    def ignored_gpus_option(self) -> str:
        """Return why a container that was given `--gpus` gets nothing by it, "" where it may, or was not given it."""
        docker, container = self.docker, self.container
        if not container.asks_gpus or not docker.version or any(node.major is not None for node in container.nodes):
            return ""
        if docker.version < FIRST_WITH_GPUS:
            return f"Docker {docker.version_words} has no --gpus for AMD"
        if not self.takes_cdi and container.runtime not in (docker.file_runtimes or ("amd",)):
            return f"it runs under {container.runtime}"
        return ""

    @property
    def permitted_nodes(self) -> list[TriedNode]:
        """Return the nodes that may be opened, whether or not a driver answers: the kernel asks for rights first."""
        return self.nodes_with(0, errno.ENXIO, errno.ENODEV)

    @property
    def gpus_inside(self) -> list[Gpu]:
        """Return the GPUs whose render nodes the container has."""
        minors = {node.minor for node in self.container.nodes if node.path.startswith("/dev/dri/")}
        return [gpu for gpu in self.gpus.gpus if gpu.render_minor in minors]

    def nodes_with(self, *numbers: int | None) -> list[TriedNode]:
        """Return the nodes on which opening said one of these, 0 for those that opened, None for those not tried."""
        return [node for node in self.container.nodes if node.errno in numbers]


def read_facts(
    host: Host, *, container: str = "", engine: str = "", user: User | None = None, proc: str = "/proc"
) -> Facts:
    """Read everything, of a `container` too where one is named; NoContainer for one that does not run.

    Where an `engine` is named, others are not asked. `user` is the one whose rootless containers are looked at.
    Programs that may keep one waiting are asked meanwhile. What is waited for, engines and then the container, shares
    SECONDS, so that the command ends within nine whatever does not answer.
    """
    specs = read_spec_files(host)
    host = BrokenHost(host.root)
    with ThreadPoolExecutor(max_workers=2) as pool:
        docker = pool.submit(read_docker, host, user) if engine in ("", "docker") else None
        told = pool.submit(ask_engines, container) if container else None
        gpus = read_gpus(host)
        containers = read_containers(host)
        facts = Facts(
            kernel=read_kernel(host, proc),
            gpus=gpus,
            cdi=read_cdi(host, specs),
            toolkit=read_toolkit(host),
            stale_containers=None if containers is None else find_stale(containers, gpus),
            unstarted_containers=find_unstarted(containers or (), host),
            podman=read_podman(host, user, is_meant=engine == "podman"),
            containerd=read_containerd(host),
            slurm=read_slurm(host, gpus.gpus),
            jobs=read_jobs(host, proc),
            packages=read_packages(host),
            docker=DockerFacts(),
        )
        begin = time.monotonic()
        facts = facts.replace(docker=docker.result()) if docker else facts
        said = told.result() if told else EngineAnswers()
    seconds = seconds_left(time.monotonic() - begin)
    # Behind the threads, because both fork.
    facts = facts.replace(conditions=read_conditions(host))
    return add_inside(host, facts, read_inside(host, container, said, seconds=seconds)) if container else facts


def add_inside(host: Host, facts: Facts, inside: InsideFacts) -> Facts:
    """Return facts with a container's, whose job may have another name for this node than the kernel."""
    node = inside.variables.get(NODE, "")
    slurm = read_slurm(host, facts.gpus.gpus, node) if node else facts.slurm
    return facts.replace(inside=inside, slurm=slurm)


def seconds_left(waited: float) -> float:
    """Return how long a container may take, after engines have kept everything waiting."""
    return max(LEAST_SECONDS, SECONDS - waited)
