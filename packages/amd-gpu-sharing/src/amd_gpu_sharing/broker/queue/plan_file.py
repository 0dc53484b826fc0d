"""The file of reservations for later, which outlasts a restart of the machine. All users may read it."""

from __future__ import annotations

from amd_gpu_tracker.book.lease import NEVER
from amd_gpu_tracker.book.state import State
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import loads
from amdgpu_discovery.value import Value

VERSION = 1
PLANS = "/var/lib/amd-container-toolkit/reserved-later.json"
LARGEST_PLANS = 1 << 20


class PlannedReservation(Value):
    """A reservation for later.

    Attributes:
        name: Name of the reservation.
        owner: The user whose process made it; names belong to a user.
        person: The user whose reservation it is: the owner, or the user who became root by sudo.
        gpus: The `GpuLocation.key` of each GPU.
        start: When it begins, in seconds since 1970 (UTC).
        seconds: How long it lasts.
        rule: Who the rule is for that allowed it; with `number`, it must still be there. "" for root.
        number: The number of the user or group of this rule.
    """

    name: str
    owner: int
    person: int
    gpus: tuple[str, ...]
    start: float
    seconds: int
    rule: str = ""
    number: int | None = None

    @property
    def end(self) -> float:
        """Return when it ends, in seconds since 1970 (UTC)."""
        return self.start + self.seconds


def read_plans(state: State) -> tuple[PlannedReservation, ...]:
    """Return the plans in the file, none if it cannot be read."""
    try:
        content = loads(read_plain_file(state.host.path(PLANS), largest=LARGEST_PLANS)[0])
        plans = (
            [PlannedReservation.from_json(each) for each in content["plans"]] if content["version"] == VERSION else []
        )
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        return ()
    return tuple(each for each in plans if 0 <= each.start < NEVER and 0 < each.seconds < NEVER)
