"""Find the GPUs that a choice means at this moment, by all leases, users and drains."""

from __future__ import annotations

from itertools import groupby

from amd_gpu_tracker.book.drains import read_drains
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.choosing import (
    IN_USE,
    Candidate,
    choose,
    describe_lack,
    find_apart,
    find_blocking_user,
    find_doubts,
    format_shortage,
    with_room,
)
from amd_gpu_tracker.claims.decision import FOR_ROOT_ONLY, LET_USERS, find_unreadable, message_about
from amd_gpu_tracker.claims.gpu_health import Verdict, name_programs, read_verdicts, with_verdicts
from amd_gpu_tracker.errors import GpusRefused, TrackerNeeded, placeholder
from amd_gpu_tracker.leases.container_names import find_container_name
from amd_gpu_tracker.leases.lease_scan import LeaseScan, count_once, scan_leases
from amd_gpu_tracker.leases.user_leases import UserLease, read_user_leases
from amdgpu_discovery.choices.grammar import FREE
from amdgpu_discovery.choices.unknown_gpus import format_numbers, shown
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from amd_gpu_tracker.book.lease import Lease
    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.claims.claim import Book, Claim
    from amd_gpu_tracker.claims.decision import Refused
    from amd_gpu_tracker.leases.pod_device import PodDevice
    from amd_gpu_tracker.leases.processes import Processes
    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import Gpu
    from amdgpu_discovery.health.limits import HealthLimits

UNREADABLE = "in use by a reservation that cannot be read"


class OtherLeases(Value):
    """Leases in other directories: for a user those of root, for root those of users."""

    of_root: tuple[Lease, ...] = ()
    of_users: tuple[UserLease, ...] = ()


class GpuChooser:
    """Chooses among the `gpus` that fit a `choice`, whole ones, or parts of them for such a `claim`.

    `limits` decide which GPUs are healthy, None for the driver's.
    """

    def __init__(
        self, choice: Choice, gpus: Sequence[Gpu], limits: HealthLimits | None, claim: Claim | None = None
    ) -> None:
        self.gpus = gpus
        self._choice = choice
        self._part = claim if claim and claim.vram_mb else None
        self._limits = limits

    def require_enabled(self, policy: Policy) -> None:
        """Raise TrackerNeeded if it is unknown which GPUs are in use."""
        if not policy.enabled:
            raise TrackerNeeded(self._choice.word)

    def prepare(self, book: Book) -> None:
        """Read what users wrote, and ask the driver, which may hang."""
        self._others = read_other_leases(book.state, book.processes)
        self._verdicts = read_verdicts(book.state.host, self.gpus, self._limits)
        self._pods = book.pods()

    def decide(self, state: State, policy: Policy, scan: LeaseScan) -> list[Gpu] | Refused:
        """Return the GPUs of the choice, or the reason why there are not enough."""
        others, verdicts, pods = self._others, self._verdicts, self._pods
        return decide_choice(
            *(state, self._choice, self.gpus, policy, scan),
            others=others,
            verdicts=verdicts,
            pods=pods,
            part=self._part,
        )


def decide_choice(
    state: State,
    choice: Choice,
    gpus: Sequence[Gpu],
    policy: Policy,
    scan: LeaseScan,
    *,
    others: OtherLeases,
    verdicts: Mapping[int, Verdict],
    pods: Mapping[str, PodDevice] = {},
    part: Claim | None = None,
) -> list[Gpu] | Refused:
    """Return the GPUs of a choice by all leases and drains, or the reason why there are not enough.

    The `others`, `verdicts` and `pods` (by the key of their GPU) were read before the caller took the lock. `part` is a
    claim on parts of GPUs.
    """
    if error := find_unreadable(scan.unreadable):
        return error
    users = find_users(gpus, policy, scan, others, is_rootless=state.is_rootless)
    lack = ""
    if part and choice.word != FREE:
        # Few jobs have parts of GPUs.
        from amd_gpu_tracker.claims.parts import find_room, totals_of

        room = find_room(totals_of(gpus), scan, policy, shares_exclusive=part.shares_by_vram)
        users = with_room(users, room, part.vram_mb)
        lack = describe_lack(users, part.vram_mb)
    users = [_with_pod(each, pods.get(each.gpu.key)) for each in users]
    candidates = with_verdicts(users, verdicts, read_drains(state.host))
    chosen = choose(candidates, choice)
    if chosen is not None:
        return chosen
    candidates = name_programs(state.host, candidates, verdicts)
    text = _describe_refusal(state, candidates, choice, scan.living, part.vram_mb if part else 0)
    return GpusRefused(
        message_about(text, (lease for candidate in candidates for lease in candidate.users)),
        hint=_hint(candidates, choice),
        obstacle=find_apart(candidates, choice) or lack,
        doubts=find_doubts(candidates),
    )


def _with_pod(candidate: Candidate, pod: PodDevice | None) -> Candidate:
    """Return a candidate that is taken if kubelet has given it to a pod whose container has not started yet."""
    if pod is None or candidate.rivals or candidate.obstacle:
        return candidate
    return candidate.replace(obstacle=f"given to pod {pod.title} by kubelet")


def only_for_root(choice: Choice, gpus: Sequence[Gpu], exclusive: Sequence[Gpu]) -> str:
    """Return why a choice among `gpus`, some of them `exclusive`, can never be met without root; "" if it can."""
    if not exclusive or choose([Candidate(gpu=gpu) for gpu in gpus if gpu not in exclusive], choice):
        return ""
    numbers = format_numbers([gpu.number for gpu in exclusive])
    gpus_are = f"GPU {numbers} is" if len(exclusive) == 1 else f"GPUs {numbers} are"
    return f"{shown(choice.text)}: {gpus_are} {FOR_ROOT_ONLY}"


def find_users(
    gpus: Sequence[Gpu], policy: Policy, own: LeaseScan, others: OtherLeases, *, is_rootless: bool
) -> list[Candidate]:
    """Return each of some GPUs with the leases that name it.

    Rootless containers cannot have exclusive GPUs, so users' leases for these do not count.
    """
    found = []
    for gpu in gpus:
        users = count_once([lease for lease in (*own.living, *others.of_root) if gpu.key in lease.gpus])
        is_exclusive = gpu.key in policy.exclusive_keys
        obstacle = UNREADABLE if own.is_named(gpu.key) else ""
        if is_exclusive and (users or is_rootless):
            obstacle = FOR_ROOT_ONLY if is_rootless else IN_USE
        shares = () if is_exclusive else _find_shares(gpu, others.of_users)
        found.append(Candidate(gpu=gpu, users=tuple(users), shares=shares, obstacle=obstacle))
    return found


def read_other_leases(state: State, processes: Processes) -> OtherLeases:
    """Read the leases of others. Call this without the lock: files of users must not delay others."""
    if not state.is_rootless:
        return OtherLeases(of_users=read_user_leases(state, processes).proved)
    root = State(state.host)
    return OtherLeases(of_root=scan_leases(root, processes, root.lease_paths()).living)


def _find_shares(gpu: Gpu, leases: Sequence[UserLease]) -> tuple[UserLease, ...]:
    """Return the users' leases that name a GPU; each user's leases are counted separately."""
    named = [each for each in leases if gpu.key in each.lease.gpus]
    by_user = [(uid, [each.lease for each in shares]) for uid, shares in groupby(named, key=lambda each: each.uid)]
    return tuple(UserLease(uid=uid, lease=lease) for uid, own in by_user for lease in count_once(own))


def _hint(candidates: Sequence[Candidate], choice: Choice) -> str:
    if _never(candidates, choice):
        return LET_USERS
    uid = find_blocking_user(candidates, choice)
    command = f"sudo amd-ctk gpu-tracker ignore {uid}"
    return "" if uid is None else f"to leave out the containers of user {uid}, run '{command}'"


def _never(candidates: Sequence[Candidate], choice: Choice) -> str:
    for_root = [each.gpu for each in candidates if each.obstacle == FOR_ROOT_ONLY]
    return only_for_root(choice, [each.gpu for each in candidates], for_root)


def _describe_refusal(
    state: State, candidates: Sequence[Candidate], choice: Choice, own: Sequence[Lease], vram_mb: int
) -> str:
    if never := _never(candidates, choice):
        return never

    def title_of(lease: Lease) -> str:
        # For a user's container, the file with its engine's name for it belongs to that user.
        name = (find_container_name(lease) if lease in own else "") or lease.container_id.rpartition("/")[2]
        return f"{name} of {placeholder(lease.person)}" if lease.person else name

    return format_shortage(candidates, choice, title_of, usable=len(locate_gpus(state.host)), vram_mb=vram_mb)
