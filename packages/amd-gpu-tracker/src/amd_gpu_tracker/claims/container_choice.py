"""Claims of containers whose GPUs the tracker chooses: `AMD_VISIBLE_DEVICES=auto:2`, and memory that Swarm promised."""

from __future__ import annotations

from amd_gpu_tracker.claims.claim import Book, Claim
from amd_gpu_tracker.claims.container import ContainerClaim, StartingContainer, holder_of, open_book
from amd_gpu_tracker.records.lease import BY_ENVIRONMENT, BY_SWARM
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import MEBIBYTE, Gpu, GpuLocation
from amdgpu_discovery.oci_spec import gpus_in_spec, is_privileged, joined_ipc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.health.limits import HealthLimits
    from amdgpu_discovery.host import Host

    Choose = Callable[[Book, Claim], Sequence[Gpu] | None]


class ChosenClaim(ContainerClaim):
    """A claim on GPUs that `reserve` and `preview` choose; both return them, None where the container runs already."""

    def __init__(self, book: Book, claim: Claim, *, reserve: Choose, preview: Choose) -> None:
        super().__init__(book, claim)
        self._choose = reserve
        self._foresee = preview

    def preview(self) -> None:
        """Choose as `reserve` would now, or raise what it would raise, and change nothing."""
        self._take(self._foresee(self._book, self._claim))

    def _reserve(self) -> bool:
        return self._take(self._choose(self._book, self._claim))

    def _take(self, chosen: Sequence[Gpu] | None) -> bool:
        self._claim = self._claim.replace(wanted=chosen or ())
        if chosen and self._claim.vram_mb:
            self.vram_total_mb = (chosen[0].vram_bytes or 0) // MEBIBYTE
        return chosen is not None


def claim_choice(
    host: Host,
    container: StartingContainer,
    choice: Choice,
    candidates: Sequence[Gpu],
    *,
    located: Sequence[GpuLocation],
    asked: Sequence[str] = (),
    limits: HealthLimits | None = None,
    claims_all: bool = False,
) -> ContainerClaim:
    """Return the claim of a container on the GPUs of a `choice` among `candidates`, those that fit.

    RequestError where it has GPUs already. `located` are all GPUs of the host, `asked` is in which words a user asked,
    `limits` say which GPUs are well, and with `claims_all` a privileged container claims every GPU and can have no
    choice.
    """
    from amd_gpu_tracker.claims.choice import preview_choice, reserve_choice

    _require_choice_alone(container, choice, located, claims_all=claims_all)
    book = open_book(host, container)
    claim = Claim(
        holder=holder_of(container, book.processes),
        wanted=(),
        ways=(BY_ENVIRONMENT,),
        asked=asked,
        is_privileged=is_privileged(container.spec),
        ipc=joined_ipc(container.spec),
        limits=limits,
    )
    return ChosenClaim(
        book,
        claim,
        reserve=lambda book, claim: reserve_choice(book, claim, choice, candidates),
        preview=lambda book, claim: preview_choice(book, claim, choice, candidates),
    )


def claim_memory(host: Host, container: StartingContainer, kinds: tuple[str, ...], mib: int) -> ContainerClaim:
    """Return the claim of a container on `mib` MiB of a GPU's memory, of a generic resource of these `kinds`.

    RequestError where it has GPUs already.
    """
    from amd_gpu_tracker.claims.vram import asked, preview_vram, reserve_vram
    from amdgpu_discovery.discover import find_gpus

    book = open_book(host, container)
    privileged = is_privileged(container.spec)
    claim = Claim(
        holder=holder_of(container, book.processes),
        wanted=(),
        ways=(BY_SWARM,),
        kinds=kinds,
        vram_mb=mib,
        is_privileged=privileged,
    )
    gpus = find_gpus(host)
    if gpus_in_spec(container.spec, gpus) and not privileged:
        raise RequestError(
            f"{asked(claim)} is memory of a GPU that is yet to be chosen, and the container was given GPUs as devices",
            hint="leave out one or the other",
        )
    return ChosenClaim(
        book,
        claim,
        reserve=lambda book, claim: reserve_vram(book, claim, gpus),
        preview=lambda book, claim: preview_vram(book, claim, gpus),
    )


def _require_choice_alone(
    container: StartingContainer, choice: Choice, located: Sequence[GpuLocation], *, claims_all: bool
) -> None:
    """Raise RequestError where a container has GPUs beside those that are chosen for it."""
    if claims_all and is_privileged(container.spec):
        raise RequestError(
            f"{choice.text}: a privileged container claims every GPU of this host",
            hint="ask for all, or start it without --privileged",
        )
    if gpus_in_spec(container.spec, located):
        raise RequestError(
            f"{choice.text}: its GPUs are yet to be chosen, and the container was given GPUs as devices",
            hint="leave out one or the other",
        )
