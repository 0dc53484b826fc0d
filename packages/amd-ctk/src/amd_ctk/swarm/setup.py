"""Prepare a node for a swarm, or take that back: the edits of Docker's configuration."""

from __future__ import annotations

from amd_ctk.configuration.changes import Changes
from amd_ctk.configuration.plan import WantedRuntime, configure, remove, unset_default
from amd_ctk.engines.docker import DOCKER, LAYOUT
from amd_ctk.swarm.generic_resources import advertise, withdraw

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amd_ctk.configuration.edit import Edit
    from amd_ctk.documents.document import Document
    from amd_ctk.swarm.resources import Resource
    from amdgpu_discovery.gpu import Gpu

RUNTIME_NAME = "amd"
# Marks what this command added beside resources.
SETUP = "swarm setup"


def plan_setup(resources: Sequence[Resource], gpus: Sequence[Gpu], *, default_program: str) -> Edit:
    """Return the edit that advertises these resources and, unless it is "", makes this program the default runtime.

    Without resources what is advertised stays as it is: it stands on the daemon's command line.
    """

    def edit(document: Document, changes: Changes) -> tuple[Document, Changes]:
        if default_program:
            runtime = WantedRuntime(runtime_name=RUNTIME_NAME, program=default_program, as_default=True)
            document, after = configure(document, DOCKER, runtime, changes)
            changes = after.marked(SETUP, of=changes)
        return advertise(document, resources, gpus, changes) if resources else (document, changes)

    return edit


def take_setup_back(document: Document, changes: Changes) -> tuple[Document, Changes]:
    """Withdraw the resources, and remove the runtime and its being the default as far as `plan_setup` made them."""
    document, changes = withdraw(document, changes)
    made = {change.path for change in changes.keys if change.by == SETUP}
    if (*LAYOUT.runtimes, RUNTIME_NAME) in made:
        return remove(document, DOCKER, RUNTIME_NAME, changes)
    return (
        unset_default(document, DOCKER, RUNTIME_NAME, changes)
        if LAYOUT.default_runtime in made
        else (document, changes)
    )
