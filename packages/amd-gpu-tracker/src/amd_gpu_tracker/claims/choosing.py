"""Choose among GPUs that fit: unreserved ones, then those with the fewest reservations, then neighbours.

Nothing here reads or writes: `choice` passes the content of the leases.
"""

from __future__ import annotations

from amdgpu_discovery.choices.grammar import AUTO, Choice
from amdgpu_discovery.choices.unknown_gpus import NAMES_SHOWN, format_numbers, shown
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from amd_gpu_tracker.book.lease import Lease
    from amd_gpu_tracker.leases.user_leases import UserLease
    from amdgpu_discovery.gpu import Gpu

IN_USE = "exclusive and in use"
# For a claim on a part of it.
USED_WHOLE = "in use without a limit"


class Candidate(Value):
    """A GPU that a choice may mean, its users, and the obstacle to choosing it ("" if there is none)."""

    gpu: Gpu
    users: tuple[Lease, ...] = ()
    # Rootless containers of other users. What they write must not decide whether root's containers start.
    shares: tuple[UserLease, ...] = ()
    obstacle: str = ""
    # Why it is not free although nobody has reserved it: a program uses it, or something is wrong with it.
    doubt: str = ""
    is_used_unreserved: bool = False
    has_leaked: bool = False
    # For a claim on a part of it: how much of its memory is left, in MiB; enough if there is no obstacle.
    room: int | None = None

    @property
    def is_free(self) -> bool:
        """Return whether it is free: nobody uses it, or only parts of it, and nothing else speaks against it."""
        return not (self.rivals or self.shares or self.obstacle or self.doubt)

    @property
    def rivals(self) -> tuple[Lease, ...]:
        """Return the users with whom it would be shared; none if each has a part."""
        return self.users if self.room is None else ()


def choose(candidates: Sequence[Candidate], choice: Choice) -> list[Gpu] | None:
    """Return the GPUs of a choice by number, None if there are not enough now.

    Free GPUs and GPUs in use are never mixed: a program on both is as fast as the slower ones. Among equals, GPUs of
    one XGMI hive come first, then GPUs of one NUMA node, then those with the lowest numbers. If `auto` finds too few
    free GPUs, it also takes those that only rootless containers of other users have, because any user can write such a
    lease. GPUs with something wrong come next, and last those that a program uses without a reservation.
    """
    best = min(_picks(_pool(candidates, choice), choice), key=_rank, default=None)
    return None if best is None else sorted((candidate.gpu for candidate in best), key=lambda gpu: gpu.number)


def with_room(candidates: Sequence[Candidate], room: Mapping[str, int], vram_mb: int) -> list[Candidate]:
    """Return candidates for a part of this size; `room` is the memory that each has left, in MiB by key."""
    return [_with_room(each, room[each.gpu.key], vram_mb) for each in candidates]


def describe_lack(candidates: Sequence[Candidate], vram_mb: int) -> str:
    """Return what a job that waits for a part of this size lacks, "" if room is not what it lacks."""
    lacking = [each for each in candidates if each.room is not None and each.room < vram_mb]
    if not lacking:
        return ""
    most = max(lacking, key=lambda each: each.room or 0)
    return f"it needs {vram_mb} MiB, and GPU {most.gpu.number} has the most left, {most.room} MiB"


def format_shortage(
    candidates: Sequence[Candidate], choice: Choice, name_of: Callable[[Lease], str], *, usable: int, vram_mb: int = 0
) -> str:
    """Return the refusal of a choice for which there are not enough GPUs now.

    `usable` GPUs are open to this process, perhaps more than the candidates. `name_of` returns a container's name.
    `vram_mb` is the size of the part that is claimed of each, in MiB; 0 for whole GPUs.
    """
    free = [candidate.gpu for candidate in candidates if candidate.is_free]
    gpus = _counted(candidates, usable)
    are_free = f"{'is' if len(free) == 1 else 'are'} free"
    if vram_mb and choice.word == AUTO:
        are_free = f"{'has' if len(free) == 1 else 'have'} {vram_mb} MiB left"
    said = f"{shown(choice.text)}: {len(free)} of {gpus} {are_free}"
    if apart := find_apart(candidates, choice):
        said += f", {apart}"
    taken = "; ".join(_taken(candidates, name_of))
    missing = choice.count - _reachable(free, choice)
    options = f"--gpus={shown(choice.text)}{f' --vram={vram_mb}MiB' if vram_mb else ''}"
    waits = f"'amd-ctk run {options} --wait -- COMMAND' waits for {'one' if missing == 1 else missing}"
    return f"{said}{f' ({taken})' if taken else ''}; {waits}"


def find_apart(candidates: Sequence[Candidate], choice: Choice) -> str:
    """Return how many of the free GPUs are in one hive, "" if that does not matter."""
    free = [candidate.gpu for candidate in candidates if candidate.is_free]
    reachable = _reachable(free, choice)
    return f"{reachable} of them in one XGMI hive" if reachable < len(free) else ""


def find_doubts(candidates: Sequence[Candidate]) -> dict[str, list[int]]:
    """Return by reason the GPUs that nobody has reserved but that are not free. Reasons are fixed words."""
    doubts: dict[str, list[int]] = {}
    for candidate in candidates:
        if candidate.doubt and not (candidate.users or candidate.shares or candidate.obstacle):
            why = "used without a reservation" if candidate.is_used_unreserved else "suspect"
            why = "leaked" if candidate.has_leaked else why
            doubts.setdefault(why, []).append(candidate.gpu.number)
    return doubts


def find_blocking_user(candidates: Sequence[Candidate], choice: Choice) -> int | None:
    """Return a user whose rootless containers alone keep a GPU from being free; None if there is none."""
    if choice.word == AUTO:
        return None
    kept = (each.shares[0].uid for each in candidates if each.shares and not (each.users or each.obstacle))
    return next(kept, None)


def _with_room(candidate: Candidate, left: int, vram_mb: int) -> Candidate:
    if candidate.obstacle and not (candidate.obstacle == IN_USE and left):
        return candidate
    if left >= vram_mb:
        return candidate.replace(obstacle="", room=left)
    if any(not each.vram_mb for each in candidate.users):
        return candidate.replace(obstacle=USED_WHOLE)
    return candidate.replace(obstacle=f"with {left} MiB left", room=left)


def _pool(candidates: Sequence[Candidate], choice: Choice) -> list[Candidate]:
    """Return the GPUs among which a choice is made."""
    free = [candidate for candidate in candidates if candidate.is_free]
    if choice.word != AUTO:
        return free
    usable = [candidate for candidate in candidates if not candidate.obstacle]
    return [candidate for candidate in usable if not (candidate.rivals or candidate.doubt)] if free else usable


def _picks(pool: Sequence[Candidate], choice: Choice) -> Iterator[list[Candidate]]:
    """Yield the best GPUs of each neighbourhood that has enough; the overall best are among these."""
    for neighbours in _neighbourhoods(pool, whole=not choice.in_one_hive):
        pick = sorted(neighbours, key=lambda candidate: (_cost(candidate), candidate.gpu.number))[: choice.count]
        if len(pick) == choice.count:
            yield pick


def _neighbourhoods(pool: Sequence[Candidate], *, whole: bool) -> Iterator[list[Candidate]]:
    groups: dict[object, list[Candidate]] = {}
    for candidate in pool:
        hive, node = candidate.gpu.xgmi_hive, candidate.gpu.numa_node
        if hive is not None:
            groups.setdefault(("hive", hive), []).append(candidate)
            groups.setdefault(("both", hive, node), []).append(candidate)
        if whole:
            groups.setdefault(("node", node), []).append(candidate)
            groups.setdefault("all", []).append(candidate)
    yield from groups.values()


def _rank(pick: Sequence[Candidate]) -> tuple[list[int], bool, bool, list[int]]:
    """Return the sort key of a pick, the most important part first; the least key is best."""
    hives = [candidate.gpu.xgmi_hive for candidate in pick]
    nodes = [candidate.gpu.numa_node for candidate in pick]
    return (
        [sum(costs) for costs in zip(*map(_cost, pick), strict=True)],
        not _is_one(hives),
        not _is_one(nodes),
        sorted(candidate.gpu.number for candidate in pick),
    )


def _cost(candidate: Candidate) -> tuple[bool, bool, int, int]:
    """Return what speaks against a GPU, the worst first.

    For a part, it is memory to spare: free memory elsewhere stays in one piece.
    """
    users = len(candidate.rivals) + len(candidate.shares)
    return candidate.is_used_unreserved, bool(candidate.doubt), users, candidate.room or 0


def _is_one(values: Sequence[int | None]) -> bool:
    return len(values) == 1 or (values[0] is not None and len(set(values)) == 1)


def _reachable(free: Sequence[Gpu], choice: Choice) -> int:
    return _largest_hive(free) if choice.in_one_hive else len(free)


def _largest_hive(gpus: Sequence[Gpu]) -> int:
    hives = [gpu.xgmi_hive for gpu in gpus if gpu.xgmi_hive is not None]
    return max(map(hives.count, hives), default=0)


def _taken(candidates: Sequence[Candidate], name_of: Callable[[Lease], str]) -> Iterator[str]:
    """Yield why GPUs are not free, each reason once: first obstacles, then the users of the other GPUs."""
    numbers_by_reason: dict[str, list[int]] = {}
    for candidate in sorted(candidates, key=lambda candidate: not candidate.obstacle):
        if not candidate.is_free:
            numbers_by_reason.setdefault(_reason(candidate, name_of), []).append(candidate.gpu.number)
    reasons = [f"{format_numbers(numbers)} {reason}" for reason, numbers in numbers_by_reason.items()]
    yield from reasons[:NAMES_SHOWN]
    if len(reasons) > NAMES_SHOWN:
        yield f"{len(reasons) - NAMES_SHOWN} more in use"


def _reason(candidate: Candidate, name_of: Callable[[Lease], str]) -> str:
    by = f"by {_names(candidate, name_of)}" if candidate.users or candidate.shares else ""
    is_named = candidate.obstacle == IN_USE and any(lease.person for lease in candidate.users)
    if is_named or candidate.obstacle == USED_WHOLE:
        return f"{candidate.obstacle} {by}"
    return candidate.obstacle or (f"in use {by}" if by else candidate.doubt)


def _counted(candidates: Sequence[Candidate], usable: int) -> str:
    """Return the total in "N of TOTAL are free": the host's GPUs, those this process may use, or those that fit."""
    gpus = f"{len(candidates)} GPU{'' if len(candidates) == 1 else 's'}"
    if len(candidates) < usable:
        return f"{gpus} that fit"
    return gpus if usable == candidates[0].gpu.host_total else f"the {gpus} this process may use"


def _names(candidate: Candidate, name_of: Callable[[Lease], str]) -> str:
    names = [shown(name_of(lease)) for lease in candidate.users[:NAMES_SHOWN]]
    names += [
        f"container {shown(each.lease.container_id)} of user {each.uid}" for each in candidate.shares[:NAMES_SHOWN]
    ]
    more = len(candidate.users) + len(candidate.shares) - min(len(names), NAMES_SHOWN)
    return " and ".join([*names[:NAMES_SHOWN], f"{more} more"] if more > 0 else names)
