"""Numbers of GPUs while a tracked GPU is lost: numbers from its own on no longer mean the GPUs that were tracked.

Requests with such a number are refused until the administrator accepts the new numbers. Other names still work.
"""

from __future__ import annotations

from amd_gpu_tracker.book.matching import Match, match_gpus
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.errors import GpusChanged, NumbersChanged, StateError
from amdgpu_discovery.choices.selection import find_numbers
from amdgpu_discovery.choices.unknown_gpus import NAMES_SHOWN
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

    AnyGpu = TypeVar("AnyGpu", bound=GpuLocation)


def any_by_number(requests: Iterable[str]) -> bool:
    """Return whether any of these requests names a GPU by its number."""
    return any(find_numbers(request) for request in requests)


def require_same_numbers(match: Match, gpus: Sequence[GpuLocation], requests: Iterable[str]) -> None:
    """Raise NumbersChanged if a request has a number that was another GPU's when GPUs were tracked.

    `gpus` are those of the host, located now.
    """
    number_by_key = {gpu.key: gpu.number for gpu in gpus}
    now = [number_by_key.get(gpu.key) for gpu in match.policy.gpus]
    spans = [span for request in requests for span in find_numbers(request)]
    changed = [then for then, number in enumerate(now) if number != then and any(then in span for span in spans)]
    # If a process may not see all GPUs, a missing one is hidden, not lost.
    changed = [then for then in changed if now[then] is not None or then in match.lost]
    if changed:
        hint = f"name GPUs by UUID as 'amd-ctk gpu list' shows them, or {hint_to_accept(match)}"
        raise NumbersChanged(_format_changes(changed, now), hint=hint)


class TrackedNumbers(Value):
    """The number by which each GPU is tracked, by `GpuLocation.key`, and which of these belong to lost GPUs."""

    by_key: dict[str, int]
    lost: tuple[int, ...] = ()

    def of(self, gpus: Iterable[AnyGpu]) -> list[AnyGpu]:
        """Return GPUs with their tracked numbers."""
        return [gpu.replace(number=self.by_key.get(gpu.key, gpu.number)) for gpu in gpus]


def find_tracked_numbers(host: Host) -> TrackedNumbers | None:
    """Return the numbers by which GPUs are tracked; None if these are their current numbers."""
    matched = _match(host)
    if matched is None:
        return None
    match, gpus = matched
    by_key = {gpu.key: number for number, gpu in enumerate(match.policy.gpus)}
    is_same = not match.lost and all(by_key[gpu.key] == gpu.number for gpu in gpus)
    return None if is_same else TrackedNumbers(by_key=by_key, lost=match.lost)


def number_as_tracked(host: Host, gpus: list[AnyGpu]) -> list[AnyGpu]:
    """Return GPUs with the numbers by which they are tracked."""
    numbers = find_tracked_numbers(host)
    return numbers.of(gpus) if numbers else gpus


def refuse_old_numbers(host: Host, asked: Iterable[str]) -> None:
    """Raise NumbersChanged if a request in `asked` has a number of a `host` that was another GPU's."""
    matched = _match(host)
    if matched is not None:
        require_same_numbers(*matched, asked)


def _match(host: Host) -> tuple[Match, list[GpuLocation]] | None:
    """Compare a host's policy with its GPUs; None if nothing is tracked, if GPUs changed, or if it cannot be read."""
    try:
        policy = State(host).read_policy()
        if not policy.enabled:
            return None
        gpus = locate_gpus(host)
        return match_gpus(host, policy, gpus), gpus
    except (GpusChanged, StateError):
        return None


def hint_to_accept(match: Match) -> str:
    """Return the advice how to accept the new numbers."""
    lost = ",".join(map(str, match.lost))
    return f"accept the new numbers with 'sudo amd-ctk gpu-tracker {f'forget {lost}' if lost else 'reset'}'"


def _format_changes(changed: Sequence[int], now: Sequence[int | None]) -> str:
    sentences = [
        f"GPU {then} is lost" if now[then] is None else f"GPU {then} now has number {now[then]}"
        for then in changed[:NAMES_SHOWN]
    ]
    more = len(changed) - len(sentences)
    return ", ".join(sentences) + (f", and {more} more have other numbers" if more else "")
