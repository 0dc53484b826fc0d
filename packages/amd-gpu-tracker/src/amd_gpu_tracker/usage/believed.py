"""Decide which process counts for which container, where a user may have named a cgroup or a lease after any other."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from amd_gpu_tracker.show.status import ContainerUse
    from amd_gpu_tracker.usage.containers import ContainerOfProcess


def first_of_each_id(*uses: Iterable[ContainerUse]) -> dict[str, ContainerUse]:
    """Return one use for each container id: root's before those of users, who choose the ids of their containers."""
    found: dict[str, ContainerUse] = {}
    for use in sorted((each for group in uses for each in group), key=lambda use: _rank(use.user)):
        found.setdefault(use.container_id, use)
    return found


def believed(
    found: Mapping[int, ContainerOfProcess | None], uses: Mapping[str, ContainerUse], *, me: int | None
) -> dict[int, ContainerOfProcess | None]:
    """Return the container of each process, None where the name of the cgroup is not believed.

    What is below the service of a user counts for a lease of that user, or for an id that nothing of root or of another
    user has. `me` is the user who looks and whose own leases are as those of root, None for root.
    """
    own = {
        pid: container.replace(user=None) if container and container.user in (0, me) else container
        for pid, container in found.items()
    }
    owners: dict[str, int | None] = {use.container_id: use.user for use in uses.values()}
    outside = {container.container_id for container in own.values() if container and container.user is None}
    for container in sorted(filter(None, own.values()), key=lambda each: _rank(each.user)):
        owners.setdefault(container.container_id, container.user)

    def is_believed(container: ContainerOfProcess) -> bool:
        is_taken = container.container_id in outside or owners[container.container_id] != container.user
        return container.user is None or not is_taken

    return {pid: container if container and is_believed(container) else None for pid, container in own.items()}


def _rank(user: int | None) -> int:
    return -1 if user is None else user
