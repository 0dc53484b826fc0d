"""Checks of Podman."""

from __future__ import annotations

from amd_ctk.doctor.check import Finding, bad, check, note, ok
from amd_ctk.doctor.checks.cdi import judge_directories, judge_version
from amd_ctk.doctor.facts.all import Facts
from amd_ctk.doctor.facts.engine_files import PodmanFacts
from amd_ctk.doctor.facts.gpus import GROUP

CONFIGURE = "sudo amd-ctk runtime configure --runtime=podman"


@check(
    engine="podman",
    why="Podman ignores a spec of an unknown version, and refuses '--device amd.com/gpu=0'",
    see="reference/cdi.md",
)
def check_podman_cdi(facts: Facts) -> Finding | None:
    """Does Podman understand the version of the CDI specs?"""
    podman = facts.podman
    if not podman.version:
        return None
    elsewhere = judge_directories("Podman", podman.cdi_elsewhere, facts.cdi)
    return elsewhere or judge_version("Podman", podman.version, facts.cdi)


@check(
    engine="podman",
    why="Podman does not start if its file is broken; containers do not start if their runtime is missing",
    see="how-to/configure-engines.md",
)
def check_podman_file(facts: Facts) -> Finding | None:
    """Are Podman's files valid, and does the program that they name exist?"""
    podman = facts.podman
    if not podman.is_installed:
        return None
    if podman.files.problem:
        path = podman.files.broken_file
        fix = f"correct {path}, and try it with: podman info"
        return bad(f"Podman cannot read {path}: {podman.files.problem}", fix=fix)
    if podman.files.missing_program:
        return bad(f"containers.conf names {podman.files.missing_program}, which does not exist", fix=CONFIGURE)
    if finding := _judge_contents(podman):
        return finding
    if not podman.files.runtimes:
        return note("Podman has no runtime amd; '--device amd.com/gpu=0' works without", fix=CONFIGURE)
    return ok(f"Podman has the runtime {podman.files.runtimes[-1]}")


def _judge_contents(podman: PodmanFacts) -> Finding | None:
    if podman.gone_device:
        words = f"containers.conf gives every container {podman.gone_device}, which does not exist"
        return bad(words, fix="take it out of devices below [containers]; podman run --device amd.com/gpu=0 gives GPUs")
    if podman.files.default_runtime == "amd" and not podman.files.runtimes:
        return bad("containers.conf has the default runtime amd, but no entry defines it", fix=CONFIGURE)
    if podman.files.runtimes and podman.refuses_runtime:
        words = (
            f'containers.conf has cgroups="disabled", and Podman then refuses the runtime {podman.files.runtimes[-1]}'
        )
        return bad(words, fix="add it to runtime_supports_nocgroup below [engine], beside the runtimes listed there")
    return None


@check(
    engine="podman",
    why="a rootless container opens the host's nodes as the user who started it, and only crun can keep the "
    "user's groups",
    see="explanation/access.md#rootless-engines",
)
def check_podman_nodes(facts: Facts) -> Finding | None:
    """Can containers of rootless Podman open the nodes?"""
    user, closed = facts.podman.user, facts.gpus.closed_nodes
    if user is None or not facts.gpus.compute_nodes or facts.toolkit.is_access_reserved:
        return None
    # node-access reports nodes that only root may open.
    foreign = [node for node in closed if node.mode & GROUP == GROUP and node.gid not in user.groups]
    if foreign:
        words = f"user {user.name} is not in group {foreign[0].gid}, which {foreign[0].path} belongs to"
        return bad(words, fix=f"sudo gpasswd --add {user.name} $(stat -c %G {foreign[0].path}), and log in again")
    left_out = [node for node in closed if node.gid in user.groups and not user.has_group(node.gid)]
    if left_out:
        words = f"user {user.name} is in group {left_out[0].gid}, but logged in before that"
        return bad(words, fix="log out and in again, so that programs may open the nodes")
    if closed and not facts.podman.keeps_groups:
        words = f"Podman uses runc, which does not keep the groups that may open {closed[0].path}"
        return bad(words, fix="install crun, and add --runtime=crun --group-add=keep-groups")
    if closed:
        return note("the nodes are open to a group of this user", fix="add --group-add=keep-groups to podman run")
    return ok("the nodes are open to everyone")


@check(
    engine="podman",
    why="rootless Podman maps a range of ids into its containers, and keeps its sockets in the user's "
    "directory below /run",
    see="explanation/access.md#rootless-engines",
)
def check_podman_user(facts: Facts) -> Finding | None:
    """Can this user run rootless Podman?"""
    podman = facts.podman
    if podman.user is None:
        return None
    name = podman.user.name
    if podman.without_ranges:
        ranges = "--add-subuids 100000-165535 --add-subgids 100000-165535"
        words = f"user {name} has no range of ids in {' and '.join(podman.without_ranges)}"
        return bad(words, fix=f"sudo usermod {ranges} {name}, with a free range, then podman system migrate")
    if not podman.has_runtime_directory:
        words = f"user {name} has no {podman.user.runtime_directory}"
        return bad(words, fix=f"log in as {name}, not with su, or: sudo loginctl enable-linger {name}")
    return ok(f"user {name} has ids for containers")
