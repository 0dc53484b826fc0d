"""The state of one GPU as a value, and the decision about it."""

from __future__ import annotations

from amd_gpu_tracker.leases.status import GpuUse
from amd_gpu_tracker.leases.use import GpuProcess
from amdgpu_discovery.health.reading import SICK, SUSPECT, Health
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from amd_gpu_tracker.book.drains import Drain

FREE = "free"
RESERVED = "reserved"
IN_USE = "in use"
DRAINING = "draining"
DRAINED = "drained"
DIRTY = "dirty"
LOST = "lost"
# In these states, lists show who and what has the GPU.
USUAL = (FREE, RESERVED, IN_USE)
STATES = (FREE, RESERVED, IN_USE, DRAINING, DRAINED, SUSPECT, DIRTY, SICK, LOST)


class GpuState(GpuUse):
    """A GPU of the host, or one that was tracked and is lost.

    Attributes:
        tracked_number: The number that it had when GPUs were tracked; differs while another GPU is lost.
        model: Name of the model; "" for a lost GPU.
        state: One of FREE, RESERVED, IN_USE, DRAINING, DRAINED, SUSPECT, DIRTY, SICK, LOST.
        reason: The reason for this state as a clause; "" if there is none to give.
        since: When it was drained, found sick or dirty, or reserved, in seconds since 1970 (UTC); None if unknown.
        processes: The processes that use it, those with most memory first. `status` leaves out those that do not
            compute, unless a GPU is in use by none that does.
        person: The person who has it; "" if it is free, or if that is unknown.
        what: The container, job or program that has it; "" if there is none.
        vram_used: Bytes of its memory in use.
        vram_total: Bytes of its memory.
        limit_bytes: The limit of the process that uses most of its memory; if none does, of the container or job that
            has it. None without one.
        charged_bytes: How much counts towards that limit.
        busy_percent: How busy it was in the last moments, in percent.
        health: What the driver reports about it, with temperature, power and errors.
        has_leaked: Whether it has memory in use that no process holds; only root can know that.
        pod: Namespace and name of the pod to which kubelet has given it; "" if there is none, and for users.
        host_total: How many GPUs the host has, including those that the device cgroup of this process hides; 0 if it is
            lost.
    """

    FREE, RESERVED, IN_USE, DRAINING, DRAINED, LOST = FREE, RESERVED, IN_USE, DRAINING, DRAINED, LOST
    SUSPECT, SICK, DIRTY = SUSPECT, SICK, DIRTY

    tracked_number: int
    model: str = ""
    state: str
    reason: str
    since: float | None
    processes: tuple[GpuProcess, ...] = ()
    person: str
    what: str
    vram_used: int | None = None
    vram_total: int | None = None
    limit_bytes: int | None = None
    charged_bytes: int | None = None
    busy_percent: int | None = None
    health: Health = Health()
    has_leaked: bool = False
    pod: str = ""
    host_total: int = 0

    @property
    def is_lost(self) -> bool:
        """Return whether it was tracked and is missing now."""
        return self.state == LOST

    @property
    def trouble(self) -> str:
        """Return a sentence about why it is not given out, or only as the last, or has leaked memory; "" for others."""
        if self.state in USUAL and not self.has_leaked:
            return ""
        return printable(f"{self.name} is {self.state}{f': {self.reason}' if self.reason else ''}")

    @property
    def temperature(self) -> float | None:
        """Return the temperature of its hottest place, in degrees Celsius."""
        return self.health.measured.temperature

    @property
    def watts(self) -> float | None:
        """Return the power it draws."""
        return self.health.measured.watts


def decide_state(
    health: Health, withheld: Mapping[str, Drain], *, is_reserved: bool, is_used: bool, use: str
) -> tuple[str, str]:
    """Return the state of a GPU that exists, and the reason; `use` says who uses it.

    `withheld` are the notes about it by `Drain.state`; one that it is sick or dirty counts until root finds it well. A
    GPU that is drained and sick counts as drained everywhere, and the reason has both.
    """
    drain, dirty = withheld.get(DRAINED), withheld.get(DIRTY)
    trouble = withheld[SICK].reason if SICK in withheld else ""
    if health.verdict == SICK:
        trouble = "; ".join(health.reasons)
    if drain:
        reason = "; ".join(filter(None, (drain.why, trouble and f"sick: {trouble}")))
        return (DRAINING if is_reserved or is_used else DRAINED), reason
    if trouble:
        return SICK, trouble
    if dirty:
        return DIRTY, dirty.reason
    if health.verdict == SUSPECT:
        return SUSPECT, "; ".join(health.reasons)
    if is_reserved:
        return RESERVED, ""
    return (IN_USE, use) if is_used else (FREE, "")
