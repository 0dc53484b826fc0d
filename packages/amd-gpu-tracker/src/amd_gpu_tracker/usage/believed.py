"""Decide for which container a process counts, where a user may have named a cgroup after any other.

Below user@UID.service that user makes cgroups with any names. What is there counts for this user, whatever the name.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amd_gpu_tracker.life.status import ContainerUse
    from amd_gpu_tracker.usage.containers import ContainerOfProcess
    from amd_gpu_tracker.usage.holders import Owner

# Slurm and systemd-machined make no cgroups below the service of a user.
ENGINES_OF_USERS = ("docker", "podman", "containerd")


def uses_by_owner(*uses: Iterable[ContainerUse]) -> dict[Owner, ContainerUse]:
    """Return the first use of each container; users choose the ids of theirs, so the id alone tells nothing."""
    found: dict[Owner, ContainerUse] = {}
    for use in (each for group in uses for each in group):
        found.setdefault((use.container_id, use.user), use)
    return found


def believed(
    container: ContainerOfProcess, uses: Mapping[Owner, ContainerUse], *, me: int | None
) -> ContainerOfProcess | None:
    """Return the container that the name of a cgroup stands for, None where the name is not believed.

    `me` is the user who looks and whose own containers are as those of root, None for root.
    """
    if container.user in (0, me, None):
        owner = _owner_of(container.container_id, uses)
        return container.replace(user=owner)
    is_known = (container.container_id, container.user) in uses
    if container.engine in ENGINES_OF_USERS:
        return container
    return container.replace(engine="") if is_known else None


def _owner_of(container_id: str, uses: Mapping[Owner, ContainerUse]) -> int | None:
    """Return who has the lease of a container outside of the services of users: a user may run engines in others."""
    users = [user for each, user in uses if each == container_id and user is not None]
    return None if (container_id, None) in uses else min(users, default=None)
