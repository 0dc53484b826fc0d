"""Can a rootless engine open the nodes?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "docker"
WHY = "without root no node can be made, so the host's are bound, with the mode that they have there"
PLACE = "explanation/access.md#rootless-engines"
EVERYBODY = 0o006


def check(facts: Facts) -> Finding | None:
    """Judge the modes of the nodes where Docker runs without root."""
    docker = facts.docker
    closed = [node for node in facts.gpus.compute_nodes if node.mode & EVERYBODY != EVERYBODY]
    if docker.maps_users and closed and not docker.is_rootless:
        # The AMD runtime makes nodes that the mapped ids may open; with --device and CDI the mode counts.
        words = f"Docker maps ids of users, and with --device {closed[0].path} keeps its mode {closed[0].mode:04o}"
        return note(words, fix="use --runtime=amd, or --userns=host with --device")
    if not docker.is_rootless:
        return None
    if closed:
        return bad(
            f"Docker is rootless, and {closed[0].path} has mode {closed[0].mode:04o}",
            fix="""add a udev rule that sets MODE="0666": see explanation/access.md#rootless-engines""",
        )
    return ok("Docker is rootless, and the nodes are open to everybody")
