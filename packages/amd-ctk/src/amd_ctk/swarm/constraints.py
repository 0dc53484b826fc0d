"""The constraints under which a service runs on nodes that its image fits, by the labels that `swarm setup` gives."""

from __future__ import annotations

from amd_ctk.swarm.errors import SwarmError
from amd_ctk.swarm.labels import PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def constraint_for(targets: Sequence[str], chosen: str) -> str:
    """Return the constraint for one of an image's targets; SwarmError where it has several and none is chosen."""
    if chosen and targets and chosen not in targets:
        raise SwarmError(f"the image has no code for {chosen}, it has code for {' '.join(targets)}")
    if not (chosen or targets):
        raise SwarmError("the image has no code for a GPU, and does not say what it is for", hint="name one with --gfx")
    if not chosen and len(targets) > 1:
        # Docker joins constraints by and, and compares with == and != only.
        raise SwarmError(
            f"the image has code for {' '.join(targets)}, and a constraint names one label",
            hint="choose one with --gfx",
        )
    return f"node.labels.{PREFIX}gfx=={chosen or targets[0]}"
