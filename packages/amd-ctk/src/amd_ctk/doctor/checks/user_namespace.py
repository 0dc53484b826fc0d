"""Is this a system container that was not given the nodes?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "in an LXC container of Proxmox or Incus the nodes have to be passed in, with a group that is mapped"
PLACE = "explanation/access.md#rootless-engines"
# What the kernel shows for an id that is not mapped (/proc/sys/kernel/overflowuid).
NOBODY = 65534


def check(facts: Facts) -> Finding | None:
    """Judge the nodes of a host whose user ids are mapped."""
    if not facts.kernel.is_user_namespace:
        return None
    if facts.gpus.node_problems:
        return bad(
            f"this is a user namespace without the nodes: {facts.gpus.node_problems[0].message}",
            fix="pass /dev/kfd and the render nodes in: pct set ID -dev0 /dev/kfd,mode=0666 -dev1 ...",
        )
    unmapped = [node for node in facts.gpus.nodes if NOBODY in (node.uid, node.gid) and node.mode & 0o006 != 0o006]
    if unmapped:
        return bad(
            f"{unmapped[0].path} belongs to nobody here: its group is not mapped into this user namespace",
            fix="pass the node in with mode=0666, or map the host's render group",
        )
    return ok("user ids are mapped, and the nodes are there")
