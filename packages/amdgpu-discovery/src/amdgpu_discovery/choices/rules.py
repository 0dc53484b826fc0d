"""What the administrator says about choices and about health; apart from their grammar, which few commands need."""

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
    """What the administrator says about choices and the health of GPUs.

    Attributes:
        groups: Requests by the names of groups: `{"notebooks": "0-1"}`.
        integrated: Whether `auto`, `free` and `all` take an APU beside discrete GPUs.
        skips_drained: Whether `all` leaves out drained GPUs; else it is refused.
        gives_sick: Whether sick GPUs are given to those who name them.
        limits: From where on a GPU is not well.
        numbers: The GPUs that any request may mean, as those of a batch job; None where that is all of the host.
    """

    groups: dict[str, str]
    integrated: bool = True
    skips_drained: bool = True
    gives_sick: bool = False
    limits: HealthLimits = NO_LIMITS
    numbers: tuple[int, ...] | None = None

    def permitted(self, gpus: Sequence[AnyGpu]) -> list[AnyGpu]:
        """Return those of some GPUs that a request may mean."""
        return [gpu for gpu in gpus if self.numbers is None or gpu.number in self.numbers]

    def words_behind(self, request: str, choice: Choice | None) -> tuple[str, ...]:
        """Return a request and those of the groups that its `choice` names: all that may name GPUs by number."""
        conditions = choice.conditions if choice else ()
        return (request, *(self.groups[each.wanted] for each in conditions if each.wanted in self.groups))


NO_RULES = ChoiceRules(groups={})
