"""Drain GPUs: nobody is given one of them any more, whoever has one keeps it."""

from __future__ import annotations

import time

from amd_gpu_tracker import may_be_draining
from amd_gpu_tracker.claims.claim import refused
from amd_gpu_tracker.errors import needs_root
from amd_gpu_tracker.records.drains import LONGEST_REASON, Drain, read_drains, write_drains
from amd_gpu_tracker.records.numbers import refuse_old_numbers
from amdgpu_discovery.choices.grammar import parse_choice
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.selection import ALL, resolve, select_gpus, split_items

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from typing import TypeVar

    from amd_gpu_tracker.claims.claim import Claim, Lock
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

    AnyGpu = TypeVar("AnyGpu", bound=GpuLocation)

HINT = "'amd-ctk gpu-tracker undrain' ends it"


def drain(state: State, request: str, *, reason: str, until: float, by: int, lock: Lock) -> list[GpuLocation]:
    """Drain the GPUs that a request names, and return them; an earlier reason and end are replaced. RequestError."""
    with _locked(state, lock):
        refuse_old_numbers(state.host, [request])
        gpus = select_gpus(locate_gpus(state.host), request)
        told = reason[:LONGEST_REASON]
        drains = {each.key: each for each in read_drains(state.host)}
        new = (Drain(key=gpu.key, reason=told, since=time.time(), until=until, by=by) for gpu in gpus)
        write_drains(state.host, {**drains, **{each.key: each for each in new}}.values())
    return list(gpus)


def undrain(state: State, request: str, *, lock: Lock) -> list[GpuLocation]:
    """Give out the GPUs that a request names again, and return those that were drained. RequestError."""
    with _locked(state, lock):
        refuse_old_numbers(state.host, [request])
        drains = {each.key: each for each in read_drains(state.host)}
        gpus = [gpu for gpu in select_gpus(locate_gpus(state.host), request) if gpu.key in drains]
        if gpus:
            keys = {gpu.key for gpu in gpus}
            write_drains(state.host, [each for key, each in drains.items() if key not in keys])
    return gpus


def refuse_drained(state: State, claim: Claim) -> None:
    """Raise GpusRefused where a claim is for a drained GPU; the caller holds the lock."""
    if why := why_drained(state.host, claim.wanted):
        raise refused(state, claim, why, hint=HINT)


def why_drained(host: Host, gpus: Sequence[GpuLocation]) -> str:
    """Return which of some GPUs are drained, by whom and why; "" where none is."""
    drains = {each.key: each for each in read_drains(host)}
    drained = [gpu for gpu in gpus if gpu.key in drains]
    return _message(drained, drains[drained[0].key]) if drained else ""


def skip_drained(host: Host, request: str, gpus: Sequence[AnyGpu]) -> Sequence[AnyGpu]:
    """Return what a request gives, without drained GPUs that it means by `all` alone; everything where that is all."""
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
    return f"{what} drained{_say_by(drained.by)}{f': {drained.reason}' if drained.reason else ''}"


def _say_by(uid: int | None) -> str:
    """Return by whom a GPU is drained; root is nobody in particular."""
    if not uid:
        return ""
    from amd_gpu_tracker.show.people import name_of_person

    return f" by {name_of_person(uid)}"


def _locked(state: State, lock: Lock) -> AbstractContextManager[None]:
    if state.is_rootless:
        raise needs_root()
    state.prepare()
    return lock(state.lock_path)
