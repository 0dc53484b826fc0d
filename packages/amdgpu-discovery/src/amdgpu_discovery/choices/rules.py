"""What the administrator says about choices; apart from their grammar, which few commands need."""

from __future__ import annotations

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class ChoiceRules(Value):
    """What the administrator says about choices.

    Attributes:
        groups: Requests by the names of groups: `{"notebooks": "0-1"}`.
        integrated: Whether `auto`, `free` and `all` take an APU beside discrete GPUs.
    """

    groups: Mapping[str, str]
    integrated: bool = True


NO_RULES = ChoiceRules(groups={})
