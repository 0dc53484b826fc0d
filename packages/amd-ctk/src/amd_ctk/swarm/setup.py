"""Prepare a node for a swarm: the edit of Docker's configuration."""

from __future__ import annotations

from amd_ctk.configuration.changes import Changes
from amd_ctk.configuration.plan import WantedRuntime, configure
from amd_ctk.engines.docker import DOCKER
from amd_ctk.swarm.generic_resources import advertise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.configuration.edit import Edit
    from amd_ctk.documents.document import Document
    from amd_ctk.swarm.resources import Resource
    from amdgpu_discovery.gpu import Gpu

RUNTIME_NAME = "amd"


def plan_setup(resources: Sequence[Resource], gpus: Sequence[Gpu], *, default_program: str) -> Edit:
    """Return the edit that advertises these resources and, unless it is "", makes this program the default runtime.

    Without resources what is advertised stays as it is: it stands on the daemon's command line.
    """

    def edit(document: Document, changes: Changes) -> tuple[Document, Changes]:
        if default_program:
            runtime = WantedRuntime(runtime_name=RUNTIME_NAME, program=default_program, as_default=True)
            document, changes = configure(document, DOCKER, runtime, changes)
        return advertise(document, resources, gpus, changes) if resources else (document, changes)

    return edit
