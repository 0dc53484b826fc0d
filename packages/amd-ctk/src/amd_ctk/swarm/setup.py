"""Prepare a node for a swarm: the edit of Docker's configuration, and what to say about the result."""

from __future__ import annotations

import os.path

from amd_ctk.configuration.changes import Changes
from amd_ctk.configuration.plan import Wish, configure
from amd_ctk.engines.docker import DOCKER, LAYOUT
from amd_ctk.engines.engine import RUNTIME_PROGRAM
from amd_ctk.swarm.advertising import advertise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amd_ctk.configuration.edit import Edit
    from amd_ctk.documents.document import Document
    from amd_ctk.swarm.resources import Resource
    from amdgpu_discovery.gpu import Gpu

RUNTIME_NAME = "amd"


def plan_setup(resources: Sequence[Resource], gpus: Sequence[Gpu], *, default_program: str) -> Edit:
    """Return the edit that offers these resources and, unless it is "", makes this program the default runtime."""

    def edit(document: Document, ours: Changes) -> tuple[Document, Changes]:
        if default_program:
            wish = Wish(runtime_name=RUNTIME_NAME, program=default_program, as_default=True)
            document, ours = configure(document, DOCKER, wish, ours)
        return advertise(document, resources, gpus, ours)

    return edit


def find_obstacles(document: Document) -> Iterator[str]:
    """Yield a sentence for each thing in Docker's configuration that keeps tasks of Swarm from getting GPUs."""
    name = document.get(LAYOUT.default_runtime)
    runtimes = document.get(LAYOUT.runtimes)
    entry = runtimes.get(name) if isinstance(runtimes, dict) and isinstance(name, str) else None
    if os.path.basename(LAYOUT.program_of(entry)) != RUNTIME_PROGRAM:
        yield (
            "Swarm runs every task under the default runtime, which is not the AMD Container Runtime"
            " ('amd-ctk runtime configure --set-as-default' makes it so)"
        )
    if document.get(("live-restore",)) is True:
        yield 'Docker is in no swarm while "live-restore" is true'
