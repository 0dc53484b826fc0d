"""Who has the GPUs that a claim wants? What decides that, and the guide's words for it.

Nothing here reads or writes: `reservation` and `amd-ctk explain` come with what leases say.
"""

from __future__ import annotations

from amd_gpu_tracker.records.lease import BY_API

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from amd_gpu_tracker.errors import StateError
    from amd_gpu_tracker.life.status import ContainerUse
    from amd_gpu_tracker.records.lease import Lease
    from amdgpu_discovery.gpu import GpuLocation

    # What a container or job is called, and the numbers of the GPUs that it uses.
    Use = tuple[str, Sequence[int]]

# What lets users reserve them all the same.
LET_USERS = "the administrator lets users reserve them with 'amd-ctk users allow'"
HINT = "run 'amd-ctk swarm status' to see which containers use the GPUs"


def require_readable(unreadable: Sequence[StateError], gpus: Iterable[GpuLocation] = ()) -> None:
    """Raise the first of what is wrong with leases, unless it is of GPUs that are none of these."""
    keys = {gpu.key for gpu in gpus}
    for error in unreadable:
        if error.gpus is None or keys.intersection(error.gpus):
            raise error


def promised_elsewhere(kinds: Collection[str], wanted: Sequence[GpuLocation], living: Iterable[Lease]) -> str:
    """Return why Swarm's promise cannot be kept, "" if it can.

    Swarm does not see that two of its resources are the same GPU, and may promise it twice.
    """
    for lease in living if kinds else ():
        gpu = next((gpu for gpu in wanted if gpu.key in lease.gpus), None)
        if gpu and lease.kinds and not set(lease.kinds) & set(kinds):
            held, asked = ", ".join(lease.kinds), ", ".join(kinds)
            return f"GPU {gpu.number} is reserved as {held} by container {lease.container_id}, not free as {asked}"
    return ""


def users_of(gpus: Iterable[GpuLocation], living: Iterable[Lease]) -> list[tuple[Lease, list[int]]]:
    """Return the leases that name some of these GPUs, each with their numbers."""
    gpus = list(gpus)
    found = [(lease, [gpu.number for gpu in gpus if gpu.key in lease.gpus]) for lease in living]
    return [(lease, numbers) for lease, numbers in found if numbers]


def people_of(uses: Iterable[Lease | ContainerUse]) -> tuple[int, ...]:
    """Return the users, root aside, whose these are."""
    return tuple(sorted({use.person for use in uses if use.person}))


def called(ways: Collection[str], container_id: str, name: str = "", person: int | None = None) -> str:
    """Return what sentences call the holder of a lease, with the `name` that its engine gave a container.

    A place is kept for the name of a person: a container start looks up none.
    """
    owner, is_owned, job = container_id.rpartition("/")
    if BY_API in ways and is_owned:
        return f"job {job} of {{{person}}}" if person else f"job {job} of user {owner}"
    kind = "job" if BY_API in ways else "container"
    title = f"{kind} {container_id} ({name})" if name else f"{kind} {container_id}"
    return f"{title} of {{{person}}}" if person else title


def refusal(container_id: str, free: Sequence[int], uses: Sequence[Use]) -> str:
    """Return the guide's lines for a container that asked for `free` GPUs and for those of `uses`.

    A job, for which `container_id` is "", was never given the free ones and is not told that they are released.
    """
    taken = sorted({number for _, numbers in uses for number in numbers})
    lines = [f"GPUs {_list(taken)} are exclusive and already in use"]
    if free and container_id:
        lines = [
            f"GPUs {_list(free)} allocated",
            *lines,
            f"Released GPUs {_list(free)} used by container {container_id}",
        ]
    return "\n".join([*lines, *(_in_use(title, numbers) for title, numbers in uses)])


def rootless_refusal(exclusive: Sequence[int]) -> str:
    """Return the line for a rootless container: other users would not see its reservation."""
    return f"GPUs {_list(exclusive)} are exclusive, which only containers of root can reserve"


def _in_use(title: str, numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"GPU {numbers[0]} is in use by {title}"
    return f"GPUs {_list(numbers)} are in use by {title}"


def _list(numbers: Collection[int]) -> str:
    return f"[{' '.join(str(number) for number in sorted(numbers))}]"
