"""Can this user run Podman without root?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "podman"
WHY = (
    "rootless Podman maps a range of ids into its containers, and keeps its sockets in the user's directory below /run"
)
PLACE = "explanation/access.md#rootless-engines"


def check(facts: Facts) -> Finding | None:
    """Judge the ranges of ids and the runtime directory of the user."""
    podman = facts.podman
    if podman.user is None:
        return None
    name = podman.user.name
    if podman.without_ranges:
        ranges = "--add-subuids 100000-165535 --add-subgids 100000-165535"
        words = f"user {name} has no range of ids in {' and '.join(podman.without_ranges)}"
        return bad(words, fix=f"sudo usermod {ranges} {name}, with a range that is free, then podman system migrate")
    if not podman.has_runtime_directory:
        words = f"user {name} has no {podman.user.runtime_directory}"
        return bad(words, fix=f"log in as {name}, not with su, or: sudo loginctl enable-linger {name}")
    return ok(f"user {name} has ids for containers")
