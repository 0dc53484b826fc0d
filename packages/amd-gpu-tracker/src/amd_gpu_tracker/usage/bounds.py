"""Bound how many containers and users are told apart, because a user may make thousands with any names.

Every one is a row and, for Prometheus, a time series that is kept for weeks. Containers with a lease are always told
apart: how many leases of a user are read is bounded already.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from amd_gpu_tracker.usage.holders import Owner
    from amd_gpu_tracker.usage.users import GpuUsage, GpuUser

# Containers without a lease of one user, and users with processes in no container.
MOST_APART = 32


def with_few_users(gpus: Sequence[GpuUsage]) -> tuple[GpuUsage, ...]:
    """Return the use of GPUs with the smallest summed.

    That is done with the containers of each user, and with users who have processes in no container.
    """
    surplus = _surplus(user for gpu in gpus for user in gpu.users)
    return tuple(_summed(gpu, surplus) for gpu in gpus) if surplus else tuple(gpus)


def _surplus(everyone: Iterable[GpuUser]) -> set[Owner]:
    """Return those who use less memory than the first few of their kind."""
    memory: dict[int | None, dict[Owner, int]] = {}
    for each in everyone:
        is_of_root = each.container_id and each.user is None
        if not each.is_tracked and not is_of_root:
            alike = memory.setdefault(each.user if each.container_id else None, {})
            alike[each.owner] = alike.get(each.owner, 0) + each.vram_bytes + each.gtt_bytes
    return {owner for alike in memory.values() for owner in _smallest(alike)}


def _smallest(memory: Mapping[Owner, int]) -> list[Owner]:
    return sorted(memory, key=lambda owner: -memory[owner])[MOST_APART:]


def _summed(gpu: GpuUsage, surplus: Container[Owner]) -> GpuUsage:
    kept: list[GpuUser] = []
    sums: dict[int | None, GpuUser] = {}
    for each in gpu.users:
        if each.owner not in surplus or each.is_tracked:
            kept.append(each)
            continue
        user = each.user if each.container_id else None
        total = sums.get(user, each.replace(container_id="", name="", engine="", user_name="", user=user, processes=()))
        sums[user] = total.replace(others=total.others + 1, processes=(*total.processes, *each.processes))
    return gpu.replace(users=(*kept, *sums.values()))
