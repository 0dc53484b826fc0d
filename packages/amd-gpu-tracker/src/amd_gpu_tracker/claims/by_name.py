"""Reserve GPUs under a name for a process that is no container."""

from __future__ import annotations

import os

from amd_gpu_tracker.book.kinds import kind_of
from amd_gpu_tracker.book.lease import BY_API, Holder, Lease
from amd_gpu_tracker.claims.claim import Book, Claim, LeaseTerms
from amd_gpu_tracker.claims.decision import find_users, in_use, message_about
from amd_gpu_tracker.claims.handover import Reservation, build_environment, digest_of, new_token
from amd_gpu_tracker.claims.reservation import preview, reserve
from amd_gpu_tracker.enabled import may_be_draining
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, TrackerDisabled
from amd_gpu_tracker.leases.lease_scan import scan_leases
from amdgpu_discovery.choices.selection import ALL, may_be_choice, select_gpus, split_items
from amdgpu_discovery.choices.unknown_gpus import NAMES_SHOWN
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.usage.people import behind_sudo, person_behind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from typing import Any

    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.choices.rules import ChoiceRules
    from amdgpu_discovery.gpu import GpuLocation
    from amdgpu_discovery.host import Host

    # Returns the numbers of the GPUs that each waiting job wants; a stopped job holds up no other.
    FindWants = Callable[[], Iterable[Collection[int]]]

NO_TERMS = LeaseTerms()


def nobody_waits() -> Iterable[Collection[int]]:
    """Return no job: there is no line."""
    return ()


def reserve_by_name(
    book: Book,
    name: str,
    request: str,
    *,
    pid: int | None,
    rules: ChoiceRules,
    terms: LeaseTerms = NO_TERMS,
    is_waiting: bool = False,
    find_wants: FindWants = nobody_waits,
    among: Collection[int] | None = None,
) -> Sequence[GpuLocation]:
    """Reserve the GPUs of a request for the process `pid`, None for the calling one. Errors as `Tracker.reserve`.

    GpusRefused also if `find_wants` returns jobs that wait for these GPUs. A choice is made among the GPUs whose
    numbers are in `among`; None for all.
    """
    state, processes = book.state, book.processes
    creator = processes.myself() if pid is None else processes.find(pid)
    if creator is None:
        raise ContainerRunning(f"process {pid} does not exist, so nothing can be reserved for it")
    choice, wanted, claim = _find_claim(
        *(book, Holder(container_id=name, creator=creator), request, rules),
        find_wants=find_wants,
        among=among,
        vram_mb=terms.vram_mb,
    )
    claim = claim.replace(**terms.as_dict() | {"vram_mb": claim.vram_mb}, is_waiting=is_waiting)
    if choice:
        # Imported here, because most requests name GPUs.
        from amd_gpu_tracker.claims.choice import GpuChooser
        from amd_gpu_tracker.claims.chosen import reserve_chosen

        chosen = reserve_chosen(book, claim, GpuChooser(choice, wanted, rules.limits, claim))
        if chosen is None:
            raise _has_gpus(name)
        return chosen
    if not reserve(book, claim):
        raise _has_gpus(name)
    # Read last, because the tracker may be enabled or disabled meanwhile. Only a lease proves the reservation.
    if wanted and state.read_lease(state.lease_path(("", name))) is None:
        raise TrackerDisabled
    return wanted


def preview_by_name(
    book: Book,
    name: str,
    request: str,
    *,
    rules: ChoiceRules,
    find_wants: FindWants = nobody_waits,
    among: Collection[int] | None = None,
    vram_mb: int = 0,
) -> Sequence[GpuLocation]:
    """Return the GPUs that `reserve_by_name` would reserve now, or raise its error; write nothing."""
    holder = Holder(container_id=name, creator=book.processes.myself())
    choice, wanted, claim = _find_claim(
        book, holder, request, rules, find_wants=find_wants, among=among, vram_mb=vram_mb
    )
    if choice:
        from amd_gpu_tracker.claims.choice import GpuChooser
        from amd_gpu_tracker.claims.chosen import preview_chosen

        return preview_chosen(book, claim, GpuChooser(choice, wanted, rules.limits, claim))
    preview(book, claim)
    return wanted


def hold_by_name(
    book: Book,
    name: str,
    request: str,
    *,
    pid: int | None = None,
    rules: ChoiceRules,
    release: Callable[[str], object],
    is_waiting: bool = False,
    find_wants: FindWants = nobody_waits,
    vram_mb: int = 0,
) -> Reservation:
    """Reserve as `reserve_by_name` does; return a reservation that can be handed on.

    Its person is determined as for a job that waits.
    """
    token = new_token(name)
    gpus = reserve_by_name(
        book,
        name,
        request,
        pid=pid,
        rules=rules,
        terms=LeaseTerms(token_digest=digest_of(token), person=find_person(book.processes), vram_mb=vram_mb),
        is_waiting=is_waiting,
        find_wants=find_wants,
    )
    return Reservation(name, gpus, build_environment(gpus, locate_gpus(book.state.host), token), release=release)


def find_wanted(host: Host, request: str, rules: ChoiceRules, vram_mb: int = 0) -> tuple[Choice | None, Sequence[Any]]:
    """Return the GPUs that a request names; for a choice that depends on usage, the choice and the GPUs that fit.

    With `vram_mb`, a part of each is wanted, in MiB: a choice has only GPUs that can give it, and one that is named, or
    that `all` means, must. RequestError if the host can never meet it; NumbersChanged if it could before a GPU was
    lost.
    """
    choice = _parse_choice(request)
    if choice and choice.needs_tracker:
        if vram_mb:
            from amdgpu_discovery.choices.grammar import VRAM, Condition

            has_memory = Condition(kind=VRAM, text=f"vram:{vram_mb}MiB", amount=vram_mb)
            choice = choice.replace(conditions=(*choice.conditions, has_memory))
        return choice, _find_fitting(host, choice, rules)
    named = _find_fitting(host, choice, rules) if choice else _find_named(host, request, rules)
    named = _skip_drained(host, request, named, rules)
    if not vram_mb:
        return None, named
    from amd_gpu_tracker.claims.parts import with_memory

    is_all = choice or ALL in split_items(request.lower())
    return None, with_memory(host, named, vram_mb, instead=ALL if is_all else f"auto:{len(named)}")


def find_person(processes: Processes) -> int | None:
    """Return the person behind the calling process, also if it runs as root; None if unknown."""
    return person_behind(os.geteuid(), login=processes.login("self"), sudo=behind_sudo(os.environ))


def jobs_wait(jobs: int, users: Sequence[tuple[Lease, Sequence[int]]]) -> GpusRefused:
    """Return the refusal where so many jobs wait for the requested GPUs, which `users` have."""
    uses = [in_use(kind_of(lease).title(), numbers) for lease, numbers in users[:NAMES_SHOWN]]
    who = "1 job waits" if jobs == 1 else f"{jobs} jobs wait"
    text = "; ".join([*uses, f"{who} for GPUs before this one"])
    return GpusRefused(message_about(text, (lease for lease, _ in users)), hint="'amd-ctk run --wait' waits in line")


def is_contested(policy: Policy, choice: Choice | None, wanted: Sequence[Any], vram_mb: int = 0) -> bool:
    """Return whether other jobs may keep it from these GPUs: exclusive ones, those of a choice, or parts of GPUs.

    A request that names shared GPUs gets them even if others have them.
    """
    return choice is not None or vram_mb > 0 or bool(policy.exclusive_among(wanted))


def _find_claim(
    book: Book,
    holder: Holder,
    request: str,
    rules: ChoiceRules,
    *,
    find_wants: FindWants,
    among: Collection[int] | None,
    vram_mb: int,
) -> tuple[Choice | None, Sequence[Any], Claim]:
    """Return the choice and GPUs of `find_wanted`, and the claim.

    GpusRefused if jobs wait before it, or if kubelet has given a pod one of the exclusive GPUs that it names.
    """
    choice, wanted = find_wanted(book.state.host, request, rules, vram_mb)
    # Root does not count what users write.
    vram_mb = 0 if book.state.is_rootless else max(0, vram_mb)
    if choice is None:
        _require_no_pod(book, wanted, is_part=bool(vram_mb))
    if choice and among is not None:
        wanted = [gpu for gpu in wanted if gpu.number in among]
    if find_wants is not nobody_waits and is_contested(book.state.read_policy(), choice, wanted, vram_mb):
        wanted = _left_by_queue(book, find_wants(), wanted, choice.count if choice else len(wanted))
    requests = rules.expand_request(request, choice)
    claim = Claim(holder=holder, wanted=wanted, ways=(BY_API,), requests=requests)
    if vram_mb:
        from amd_gpu_tracker.claims.parts import require_known, totals_of

        require_known(wanted)
        claim = claim.replace(vram_mb=vram_mb, totals=totals_of(wanted), shares_by_vram=rules.shares_by_vram)
    return choice, wanted, claim


def _parse_choice(request: str) -> Choice | None:
    if not may_be_choice(request):
        return None
    from amdgpu_discovery.choices.grammar import parse_choice

    return parse_choice(request)


def _find_fitting(host: Host, choice: Choice, rules: ChoiceRules) -> Sequence[Any]:
    from amdgpu_discovery.choices.candidates import find_candidates
    from amdgpu_discovery.discover import find_gpus

    return find_candidates(choice, rules.permitted(find_gpus(host)), rules)


def _find_named(host: Host, request: str, rules: ChoiceRules) -> Sequence[GpuLocation]:
    def find_unnumbered() -> Sequence[Any]:
        from amdgpu_discovery.discover import find_unnumbered_gpus

        return find_unnumbered_gpus(host)

    try:
        return select_gpus(rules.permitted(locate_gpus(host)), request, unnumbered=find_unnumbered)
    except RequestError:
        from amd_gpu_tracker.book.numbers import refuse_old_numbers

        refuse_old_numbers(host, [request])
        raise


def _skip_drained(host: Host, request: str, gpus: Sequence[Any], rules: ChoiceRules) -> Sequence[Any]:
    if not (rules.skips_drained and may_be_draining(host)):
        return gpus
    from amd_gpu_tracker.claims.draining import skip_drained

    return skip_drained(host, request, gpus)


def _require_no_pod(book: Book, wanted: Sequence[GpuLocation], *, is_part: bool) -> None:
    exclusive = book.state.read_policy().exclusive_among(wanted)
    # A pod has no part of a GPU, but all of it.
    guarded = wanted if is_part else exclusive
    pods = book.pods() if guarded else {}
    for gpu in guarded:
        if gpu.key in pods:
            is_given = "is exclusive and given" if gpu in exclusive else "is given"
            raise GpusRefused(f"GPU {gpu.number} {is_given} to pod {pods[gpu.key].title} by kubelet")


def _left_by_queue(
    book: Book, wants: Iterable[Collection[int]], wanted: Sequence[GpuLocation], count: int
) -> Sequence[GpuLocation]:
    """Return the GPUs for which no job waits; GpusRefused if they are fewer than `count`."""
    numbers_by_key = {gpu.key: gpu.number for gpu in wanted}
    rivals = [among for among in wants if any(number in among for number in numbers_by_key.values())]
    left = [gpu for gpu in wanted if not any(gpu.number in among for among in rivals)]
    if len(left) < count:
        leases = scan_leases(book.state, book.processes, book.state.lease_paths()).living
        raise jobs_wait(len(rivals), find_users(leases, numbers_by_key))
    return left


def _has_gpus(name: str) -> ContainerRunning:
    return ContainerRunning(f"{name} already has GPUs", hint="give each reservation its own name")
