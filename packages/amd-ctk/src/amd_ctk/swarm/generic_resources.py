"""Edit `node-generic-resources` of the Docker configuration; entries of others stay as they are."""

from __future__ import annotations

from amd_ctk.configuration.changes import Changes, set_keys, take_back
from amd_ctk.documents.document import ABSENT, Document, DocumentError
from amd_ctk.swarm.errors import SwarmError
from amd_ctk.swarm.resources import Resource, gpus_named_by, parse_resource

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from amdgpu_discovery.gpu import Gpu

PATH = ("node-generic-resources",)


def read_resources(document: Document) -> list[Resource]:
    """Return what a configuration advertises; DocumentError where that is not a list of strings."""
    return [parse_resource(entry) for entry in _read(document)]


def read_added_resources(changes: Changes) -> list[Resource]:
    """Return the resources that amd-ctk added to a configuration."""
    return [parse_resource(entry) for entry in _added(changes)]


def advertise(
    document: Document, wanted: Sequence[Resource], gpus: Sequence[Gpu], changes: Changes
) -> tuple[Document, Changes]:
    """Advertise these resources instead of those added earlier and of all others of the same kinds.

    SwarmError where another entry names one of the GPUs, which Swarm would then give out twice.
    """
    kinds = {resource.kind for resource in wanted}
    change = changes.find(PATH)
    if change and document.get(PATH) != change.value:
        # The list was edited since: without the added entries, it is the new original.
        document, changes = withdraw(document, changes)
    before = _added(changes)
    kept = [entry for entry in _read(document) if entry not in before and parse_resource(entry).kind not in kinds]
    for entry in kept:
        if numbers := gpus_named_by(parse_resource(entry), gpus):
            raise SwarmError(
                f"{entry} in node-generic-resources names GPU {numbers[0]}, and Swarm would give that out twice",
                hint=f"remove the entry, or use --kind {parse_resource(entry).kind}",
            )
    return set_keys(document, [(PATH, [*kept, *map(str, wanted)])], changes)


def withdraw(document: Document, changes: Changes) -> tuple[Document, Changes]:
    """Remove the entries that amd-ctk added; entries that others added since stay."""
    change = changes.find(PATH)
    if change is None or document.get(PATH) == change.value:
        return take_back(document, PATH, changes)
    kept = [entry for entry in _read(document) if entry not in _added(changes)]
    return document.set(PATH, kept) if kept else document.remove(PATH), changes.without(PATH)


def _read(document: Document) -> list[str]:
    entries = document.get(PATH)
    if entries is ABSENT:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise DocumentError(f'"{PATH[0]}" is not a list of strings')
    return entries


def _added(changes: Changes) -> list[str]:
    """Return the entries that amd-ctk added to the list."""
    change = changes.find(PATH)
    if change is None:
        return []
    before = [] if change.before is ABSENT else change.before
    return [entry for entry in change.value if entry not in before]
