"""Does the container's device cgroup let it open the nodes that it has?"""

from __future__ import annotations

import errno
import shlex

from amd_ctk.doctor.finding import Finding, bad, ok
from amd_ctk.doctor.inside.tried import name_of, nodes_with, permitted_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a node that was bound or made inside is of no use while the device cgroup does not know its number"
PLACE = "explanation/access.md#the-device-cgroup-is-the-gate"


def check(facts: Facts) -> Finding | None:
    """Judge what the kernel says for a number that is not allowed: EPERM."""
    refused = nodes_with(facts, errno.EPERM)
    if refused:
        words = f"the device cgroup of {name_of(facts)} refuses {refused[0].path} ({refused[0].number})"
        return bad(words, fix=f"start it with --device {shlex.quote(refused[0].path)}, or with --runtime=amd")
    return ok(f"the device cgroup of {name_of(facts)} refuses no node") if permitted_nodes(facts) else None
