"""May containers of rootless Podman open the nodes?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "podman"
WHY = "a rootless container opens the host's nodes as the user who started it, and only crun can keep the user's groups"
PLACE = "explanation/access.md#rootless-engines"
EVERYBODY = 0o006
GROUP = 0o060


def check(facts: Facts) -> Finding | None:
    """Judge the modes of the nodes against the groups of the user."""
    user, nodes = facts.podman.user, facts.gpus.compute_nodes
    if user is None or not nodes:
        return None
    closed = [node for node in nodes if node.mode & EVERYBODY != EVERYBODY]
    # That nobody but root may open them is what node-access says.
    foreign = [node for node in closed if node.mode & GROUP == GROUP and node.gid not in user.groups]
    if foreign:
        words = f"user {user.name} is not in group {foreign[0].gid}, which {foreign[0].path} belongs to"
        return bad(words, fix=f"sudo gpasswd --add {user.name} $(stat -c %G {foreign[0].path}), and log in again")
    if closed and not facts.podman.keeps_groups:
        words = f"Podman uses runc, which does not keep the groups that may open {closed[0].path}"
        return bad(words, fix="install crun, and add --runtime=crun --group-add=keep-groups")
    if closed:
        return note("the nodes are open to a group of this user", fix="add --group-add=keep-groups to podman run")
    return ok("the nodes are open to everybody")
