"""Does the driver serve the GPUs that the container may open?"""

from __future__ import annotations

import errno
import os

from amd_ctk.doctor.finding import Finding, bad
from amd_ctk.doctor.inside.tried import SAID_ELSEWHERE, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "the driver refuses a card that it cannot serve, and every GPU while one is being reset"
PLACE = "how-to/troubleshoot.md#the-driver-and-its-nodes"
WORDS = {errno.ENOMEM: "KFD refuses this card", errno.EBUSY: "the GPU is being reset"}


def check(facts: Facts) -> Finding | None:
    """Judge every other answer of the driver: ENOMEM, EBUSY and those that nobody expects."""
    nodes = facts.inside.nodes if facts.inside else ()
    broken = [node for node in nodes if node.errno and node.errno not in SAID_ELSEWHERE]
    if not broken:
        return None
    number = broken[0].errno or 0
    words = WORDS.get(number, os.strerror(number))
    return bad(f"{broken[0].path} does not open in {name_of(facts)}: {words}", fix="sudo dmesg | grep -iE 'amdgpu|kfd'")
