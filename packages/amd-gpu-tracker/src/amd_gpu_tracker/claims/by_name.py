"""Reserve GPUs under a name for a process that is no container."""

from __future__ import annotations

from amd_gpu_tracker.claims.choice import find_wanted, reserve_choice
from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.handover import Reservation, build_environment, digest_of, new_token
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.errors import ContainerRunning, TrackerDisabled
from amd_gpu_tracker.records.lease import BY_API, Holder
from amdgpu_discovery.numbering import locate_gpus

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amd_gpu_tracker.life.processes import Processes
    from amd_gpu_tracker.records.lock import Lock
    from amd_gpu_tracker.records.state import State
    from amdgpu_discovery.choices.rules import ChoiceRules
    from amdgpu_discovery.gpu import GpuLocation


def reserve_by_name(
    state: State,
    name: str,
    request: str,
    *,
    pid: int | None,
    processes: Processes,
    lock: Lock,
    rules: ChoiceRules,
    token_digest: str = "",
    person: int | None = None,
    until: float = 0.0,
    limit: float = 0.0,
    is_waiting: bool = False,
) -> Sequence[GpuLocation]:
    """Reserve the GPUs of a request for the process `pid`, None for the calling one. Errors as `Tracker.reserve`.

    A container that has the token of this digest is given them. `person`, `until` and `limit` are as in the lease.
    """
    choice, wanted = find_wanted(state.host, request, rules)
    creator = processes.myself() if pid is None else processes.find(pid)
    if creator is None:
        raise ContainerRunning(f"process {pid} does not exist, so nothing can be reserved for it")
    holder = Holder(container_id=name, creator=creator)
    claim = Claim(
        holder=holder,
        wanted=wanted,
        ways=(BY_API,),
        asked=rules.words_behind(request, choice),
        token_digest=token_digest,
        person=person,
        until=until,
        limit=limit,
        is_waiting=is_waiting,
        limits=rules.limits,
    )
    if choice:
        chosen = reserve_choice(state, claim, choice, wanted, processes=processes, lock=lock)
        if chosen is None:
            raise _has_gpus(name)
        return chosen
    if not reserve(state, claim, processes=processes, lock=lock):
        raise _has_gpus(name)
    # Asked last: what is enabled or disabled meanwhile is not mistaken for a reservation that holds.
    if wanted and state.read_lease(state.lease_path(("", name))) is None:
        raise TrackerDisabled
    return wanted


def hold_by_name(
    state: State,
    name: str,
    request: str,
    *,
    pid: int | None = None,
    processes: Processes,
    lock: Lock,
    rules: ChoiceRules,
    release: Callable[[str], object],
    is_waiting: bool = False,
) -> Reservation:
    """Reserve as `reserve_by_name` does, and return the reservation with what hands it on."""
    token = new_token(name)
    gpus = reserve_by_name(
        state,
        name,
        request,
        pid=pid,
        processes=processes,
        lock=lock,
        rules=rules,
        token_digest=digest_of(token),
        is_waiting=is_waiting,
    )
    return Reservation(name, gpus, build_environment(gpus, locate_gpus(state.host), token), release=release)


def _has_gpus(name: str) -> ContainerRunning:
    return ContainerRunning(f"{name} has GPUs already", hint="give every reservation a name of its own")
