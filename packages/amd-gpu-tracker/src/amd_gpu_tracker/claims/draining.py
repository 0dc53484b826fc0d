"""Drain GPUs, and refuse drained, sick and dirty ones: no request gets them, but their holders keep them."""

from __future__ import annotations

import time

from amd_gpu_tracker.book.drains import DIRTY, DRAINED, LONGEST_REASON, SICK, Drain, by_key, read_drains, write_drains
from amd_gpu_tracker.book.lease import NEVER
from amd_gpu_tracker.book.numbers import refuse_old_numbers
from amd_gpu_tracker.enabled import may_be_draining
from amd_gpu_tracker.errors import GpusRefused
from amdgpu_discovery.choices.grammar import parse_choice
from amdgpu_discovery.choices.selection import ALL, resolve, select_gpus, split_items
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TypeVar

    from amd_gpu_tracker.claims.claim import Book
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

    AnyGpu = TypeVar("AnyGpu", bound=GpuLocation)

HINTS = {
    DRAINED: "'sudo amd-ctk gpu-tracker undrain GPUS' ends it",
    SICK: "'sudo amd-ctk status' looks again, and the setting allow-sick-gpus gives it out",
    DIRTY: "'sudo amd-ctk gpu clean GPUS' ends what is left, and the setting allow-dirty-gpus gives it out",
}


def drain(book: Book, request: str, *, reason: str, until: float, by: int) -> list[GpuLocation]:
    """Drain the GPUs that a request names, and return them. Replaces an earlier reason and end. RequestError."""
    if not 0 <= until < NEVER:
        raise RequestError(f"a drain cannot end at {until:g}: that is not a time")
    host = book.state.host
    with book.locked_by_root():
        gpus = _select(host, request)
        text = reason[:LONGEST_REASON]
        keys = {gpu.key for gpu in gpus}
        kept = [each for each in read_drains(host) if each.state != DRAINED or each.key not in keys]
        new = (Drain(key=gpu.key, reason=text, since=time.time(), until=until, by=by) for gpu in gpus)
        write_drains(host, (*kept, *new))
    return list(gpus)


def find_undrained(host: Host, request: str, *, reason: str, until: float) -> list[GpuLocation]:
    """Return the GPUs of a request that are not yet drained for this reason and time. RequestError."""
    text = reason[:LONGEST_REASON]
    same = {
        each.key for each in read_drains(host) if each.state == DRAINED and (each.reason, each.until) == (text, until)
    }
    return [gpu for gpu in _select(host, request) if gpu.key not in same]


def undrain(book: Book, request: str) -> list[GpuLocation]:
    """End the drain of the GPUs that a request names; return those that were drained. RequestError."""
    # If nothing changes, root is not needed.
    host = book.state.host
    if not find_drained(host, request):
        return []
    with book.locked_by_root():
        gpus = find_drained(host, request)
        keys = {gpu.key for gpu in gpus}
        drains = read_drains(host)
        write_drains(host, [each for each in drains if each.state != DRAINED or each.key not in keys])
    return gpus


def find_drained(host: Host, request: str) -> list[GpuLocation]:
    """Return the drained GPUs among those that a request names. RequestError."""
    drained = {each.key for each in read_drains(host) if each.state == DRAINED}
    return [gpu for gpu in _select(host, request) if gpu.key in drained]


def _select(host: Host, request: str) -> Sequence[GpuLocation]:
    refuse_old_numbers(host, [request])
    if not (gpus := select_gpus(locate_gpus(host), request)):
        raise RequestError("the request names no GPU", hint="name GPUs, as in 0-2, or all")
    return gpus


def refuse_drained(host: Host, gpus: Sequence[GpuLocation]) -> GpusRefused | None:
    """Return the refusal if one of some GPUs is drained, sick or dirty, with the reason and a hint."""
    wanted = {gpu.key for gpu in gpus}
    drains = [each for each in read_drains(host) if each.key in wanted]
    if not drains:
        return None
    first = drains[0]
    keys = {each.key for each in drains if each.state == first.state}
    message = _message([gpu for gpu in gpus if gpu.key in keys], first)
    return GpusRefused(message, hint=HINTS[first.state])


def describe_withheld(host: Host, gpus: Iterable[GpuLocation]) -> dict[int, str]:
    """Return by number a sentence about each of some GPUs that is drained, sick or dirty, with the reason."""
    drains = by_key(read_drains(host)) if may_be_draining(host) else {}
    return {gpu.number: _message([gpu], drains[gpu.key]) for gpu in gpus if gpu.key in drains}


def skip_drained(host: Host, request: str, gpus: Sequence[AnyGpu]) -> Sequence[AnyGpu]:
    """Return the `gpus` of a `host` that a starting container gets for a `request`.

    Drained, sick and dirty GPUs that only `all` refers to are left out, unless that leaves none.
    """
    if ALL not in request.lower() or not may_be_draining(host):
        return gpus
    named = [item for item in split_items(request) if item.lower() != ALL and parse_choice(item) is None]
    kept = {gpu.number for gpu in resolve(gpus, ",".join(named)).gpus}
    drained = {each.key for each in read_drains(host)}
    return [gpu for gpu in gpus if gpu.number in kept or gpu.key not in drained] or gpus


def without_drained(host: Host, gpus: Sequence[AnyGpu]) -> list[AnyGpu]:
    """Return those of some GPUs that may be given out."""
    keys = {each.key for each in read_drains(host)}
    return [gpu for gpu in gpus if gpu.key not in keys]


def _message(gpus: Sequence[GpuLocation], drained: Drain) -> str:
    numbers = " and ".join(str(gpu.number) for gpu in gpus)
    what = f"GPUs {numbers} are" if len(gpus) > 1 else f"GPU {numbers} is"
    if drained.state != DRAINED:
        from amd_gpu_tracker.times import format_time

        return f"{what} {drained.state} since {format_time(drained.since)}: {drained.reason}"
    return f"{what} drained{_format_drainer(drained.by)}{f': {drained.why}' if drained.why else ''}"


def _format_drainer(uid: int | None) -> str:
    """Return who drained a GPU; "" for root."""
    if not uid:
        return ""
    from amdgpu_discovery.usage.people import name_of_person

    return f" by {name_of_person(uid)}"
