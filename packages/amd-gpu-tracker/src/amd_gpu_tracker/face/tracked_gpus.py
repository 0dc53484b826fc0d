"""The numbers of tracked GPUs, and which of them are lost, drained or sick, for commands that list or choose GPUs."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    from amd_gpu_tracker.claims.claim import Book
    from amd_gpu_tracker.claims.forgetting import Forgotten
    from amd_gpu_tracker.claims.leftovers import EndedLeftovers
    from amdgpu_discovery.gpu import GpuLocation

    AnyGpu = TypeVar("AnyGpu", bound=GpuLocation)


class TrackedGpus:
    """The GPUs of one host, as the tracker numbers them."""

    # Each method imports what it needs, as in `Tracker`.

    def __init__(self, book: Book) -> None:
        """Look at the host of this book."""
        self._book = book
        self._host = book.state.host

    def number(self, gpus: list[AnyGpu]) -> list[AnyGpu]:
        """Return `gpus` with the numbers by which they are tracked, which differ while a tracked GPU is lost."""
        from amd_gpu_tracker.book.numbers import number_as_tracked

        return number_as_tracked(self._host, gpus)

    def lost(self) -> tuple[int, ...]:
        """Return the previous numbers of the tracked GPUs that are lost."""
        from amd_gpu_tracker.book.numbers import find_tracked_numbers

        numbers = find_tracked_numbers(self._host)
        return numbers.lost if numbers else ()

    def forget(self, request: str) -> Forgotten:
        """Forget lost GPUs, and accept the numbers that the other GPUs have now.

        `request` has the previous numbers of the lost GPUs, or is `all`. Raises NotPermitted, RequestError for an item
        that is not a number, and NotDone for a GPU that is not lost.
        """
        from amd_gpu_tracker.claims.forgetting import forget_lost

        return forget_lost(self._book, request)

    def without_drained(self, gpus: Sequence[AnyGpu]) -> list[AnyGpu]:
        """Return those of `gpus` that are neither drained nor sick nor dirty."""
        from amd_gpu_tracker.claims.draining import without_drained

        return without_drained(self._host, gpus)

    def withheld(self, gpus: Iterable[GpuLocation]) -> dict[int, str]:
        """Return, by number, a message for each of `gpus` that is refused because it is drained, sick or dirty."""
        from amd_gpu_tracker.claims.draining import describe_withheld

        return describe_withheld(self._host, gpus)

    def withheld_as(self, gpus: Iterable[GpuLocation]) -> dict[int, str]:
        """Return, by number, a word for each of `gpus` that is refused: `drained`, `sick` or `dirty`."""
        from amd_gpu_tracker.book.drains import by_key, read_drains

        drains = by_key(read_drains(self._host))
        return {gpu.number: drains[gpu.key].state for gpu in gpus if gpu.key in drains}

    def end_left(self, gpus: Iterable[GpuLocation]) -> list[EndedLeftovers]:
        """End the processes that ended jobs have left on `gpus`, and return what became of them; NotPermitted.

        Only processes that were seen in the ended job, and that still run as its owner.
        """
        from amd_gpu_tracker.claims.leftovers import end_left, find_dirty

        with self._book.locked_by_root():
            dirty = {each.key: each for each in find_dirty(self._book.state)}
        found = [(gpu.number, dirty[gpu.key]) for gpu in gpus if gpu.key in dirty]
        return [end_left(number, drain, self._book.processes) for number, drain in found]

    def would_drain(self, request: str, *, reason: str = "", until: float = 0) -> tuple[int, ...]:
        """Return the numbers of the GPUs that `Tracker.drain` would drain or change; RequestError."""
        from amd_gpu_tracker.claims.draining import find_undrained

        found = find_undrained(self._host, request, reason=reason, until=until)
        return tuple(gpu.number for gpu in found)

    def would_undrain(self, request: str) -> tuple[int, ...]:
        """Return the numbers of the GPUs that `Tracker.undrain` of this `request` would give out; RequestError."""
        from amd_gpu_tracker.claims.draining import find_drained

        return tuple(gpu.number for gpu in find_drained(self._host, request))
