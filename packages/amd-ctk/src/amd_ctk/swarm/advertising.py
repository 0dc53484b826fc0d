"""What the Docker configuration offers to a swarm: our entries of `node-generic-resources`, and others' as they are.

Swarm counts every entry by itself, so a list is edited as a whole and everybody else's entries stay in it.
"""

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
    """Return what a configuration offers; DocumentError where that is no list of words."""
    return [parse_resource(entry) for entry in _read(document)]


def read_our_resources(ours: Changes) -> list[Resource]:
    """Return what we added to a configuration."""
    return [parse_resource(entry) for entry in _ours(ours)]


def advertise(
    document: Document, wanted: Sequence[Resource], gpus: Sequence[Gpu], ours: Changes
) -> tuple[Document, Changes]:
    """Offer these resources instead of ours of an earlier time and of all others of their kinds.

    SwarmError where somebody else's entry names a GPU too, which Swarm would then give out twice.
    """
    kinds = {resource.kind for resource in wanted}
    change = ours.find(PATH)
    if change and document.get(PATH) != change.value:
        # Others have edited the list since: what they left of it, short of ours, is what was there before us.
        document, ours = withdraw(document, ours)
    before = _ours(ours)
    kept = [entry for entry in _read(document) if entry not in before and parse_resource(entry).kind not in kinds]
    for entry in kept:
        if numbers := gpus_named_by(parse_resource(entry), gpus):
            raise SwarmError(
                f"{entry} in node-generic-resources names GPU {numbers[0]}, and Swarm would give that out twice",
                hint=f"take the entry out, or say --kind {parse_resource(entry).kind}",
            )
    return set_keys(document, [(PATH, [*kept, *map(str, wanted)])], ours)


def withdraw(document: Document, ours: Changes) -> tuple[Document, Changes]:
    """Offer nothing of ours any more; what others have added since stays."""
    change = ours.find(PATH)
    if change is None or document.get(PATH) == change.value:
        return take_back(document, PATH, ours)
    kept = [entry for entry in _read(document) if entry not in _ours(ours)]
    return document.set(PATH, kept) if kept else document.remove(PATH), ours.without(PATH)


def _read(document: Document) -> list[str]:
    entries = document.get(PATH)
    if entries is ABSENT:
        return []
    if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
        raise DocumentError(f'"{PATH[0]}" is not a list of strings')
    return entries


def _ours(ours: Changes) -> list[str]:
    """Return the entries that we added to those that were there."""
    change = ours.find(PATH)
    if change is None:
        return []
    before = [] if change.before is ABSENT else change.before
    return [entry for entry in change.value if entry not in before]
