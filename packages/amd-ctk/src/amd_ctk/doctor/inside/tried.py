"""What several checks ask about the nodes that were tried from inside a container."""

from __future__ import annotations

import errno

from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.inside.nodes import TriedNode
from amdgpu_discovery.gpu import Gpu

# Each has a check of its own.
SAID_ELSEWHERE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EINVAL, errno.ENXIO, errno.ENODEV, errno.ENOTDIR)
# Versions of Docker: --gpus sets AMD_VISIBLE_DEVICES, and takes a CDI device.
FIRST_WITH_GPUS = (28, 3)
# (https://github.com/moby/moby/pull/52048).
FIRST_BY_CDI = (29, 3)
# Of a whole id, and of what engines show of it.
WHOLE_ID = 64
SHORT_ID = 12


def name_of(facts: Facts) -> str:
    """Return the container as sentences name it."""
    name = facts.inside.name if facts.inside else ""
    return f"container {name[:SHORT_ID] if len(name) == WHOLE_ID else name}"


def ignored_gpus_option(facts: Facts) -> str:
    """Return why a container that was given `--gpus` gets nothing by it, "" where it may, or was not given it."""
    docker = facts.docker
    if facts.inside is None or not facts.inside.asks_gpus or not docker.version:
        return ""
    if any(node.major is not None for node in facts.inside.nodes):
        return ""
    if docker.version < FIRST_WITH_GPUS:
        return f"Docker {docker.version_words} has no --gpus for AMD"
    if not takes_cdi(facts) and facts.inside.runtime not in (docker.file_runtimes or ("amd",)):
        return f"it runs under {facts.inside.runtime}"
    return ""


def takes_cdi(facts: Facts) -> bool:
    """Return whether Docker's `--gpus` is a CDI device of AMD: beside those of NVIDIA, or with CDI off, it is not."""
    docker, cdi = facts.docker, facts.cdi
    return docker.version >= FIRST_BY_CDI and docker.has_cdi and bool(cdi.paths) and not cdi.has_nvidia


def nodes_with(facts: Facts, *numbers: int | None) -> list[TriedNode]:
    """Return the nodes on which opening said one of these, 0 for those that opened, None for those not tried."""
    return [node for node in facts.inside.nodes if node.errno in numbers] if facts.inside else []


def permitted_nodes(facts: Facts) -> list[TriedNode]:
    """Return the nodes that may be opened, whether or not a driver answers: the kernel asks for rights first."""
    return nodes_with(facts, 0, errno.ENXIO, errno.ENODEV)


def gpus_inside(facts: Facts) -> list[Gpu]:
    """Return the GPUs whose render nodes the container has."""
    minors = {node.minor for node in facts.inside.nodes if node.path.startswith("/dev/dri/")} if facts.inside else set()
    return [gpu for gpu in facts.gpus.gpus if gpu.render_minor in minors]
