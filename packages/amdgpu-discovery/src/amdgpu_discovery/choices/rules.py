"""The administrator's rules for choices and health; apart from the grammar, which few commands need."""

from __future__ import annotations

from amdgpu_discovery.health.limits import NO_LIMITS, HealthLimits
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeVar

    from amdgpu_discovery.choices.grammar import Choice
    from amdgpu_discovery.gpu import GpuLocation

    AnyGpu = TypeVar("AnyGpu", bound=GpuLocation)


class ChoiceRules(Value):
    """The administrator's rules for choices and the health of GPUs.

    Attributes:
        groups: Requests by the names of groups: `{"notebooks": "0-1"}`.
        integrated: Whether `auto`, `free` and `all` include an APU beside discrete GPUs.
        skips_drained: Whether `all` leaves out drained GPUs; otherwise it is refused.
        gives_sick: Whether requests that name sick GPUs get them.
        gives_dirty: Whether GPUs are given out on which an ended job has left something.
        shares_by_vram: Whether jobs may have parts of an exclusive GPU's memory, and share it by these.
        limits: Limits from which a GPU is sick or suspect.
        numbers: The GPUs that any request may mean, such as those of a batch job; None for all of the host.
    """

    groups: dict[str, str]
    integrated: bool = True
    skips_drained: bool = True
    gives_sick: bool = False
    gives_dirty: bool = False
    shares_by_vram: bool = False
    limits: HealthLimits = NO_LIMITS
    numbers: tuple[int, ...] | None = None

    def permitted(self, gpus: Sequence[AnyGpu]) -> list[AnyGpu]:
        """Return those of `gpus` that a request may mean."""
        return [gpu for gpu in gpus if self.numbers is None or gpu.number in self.numbers]

    def expand_request(self, request: str, choice: Choice | None) -> tuple[str, ...]:
        """Return a request and those of the groups in its `choice`: all texts that may name GPUs by number."""
        conditions = choice.conditions if choice else ()
        return (request, *(self.groups[each.value] for each in conditions if each.value in self.groups))


NO_RULES = ChoiceRules(groups={})
