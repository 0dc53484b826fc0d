"""Is any GPU behind /dev/kfd for this container?"""

from __future__ import annotations

import errno

from amd_ctk.doctor.finding import Finding, bad
from amd_ctk.doctor.inside.tried import name_of, nodes_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "KFD refuses a process that may use none of its GPUs, before it says which there are"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge what KFD says to a process without a GPU: EINVAL."""
    refused = nodes_with(facts, errno.EINVAL)
    if not refused:
        return None
    return bad(
        f"{refused[0].path} opens to {name_of(facts)}, and none of KFD's GPUs does",
        fix="give it a render node that belongs to a GPU of 'amd-ctk gpu list'",
    )
