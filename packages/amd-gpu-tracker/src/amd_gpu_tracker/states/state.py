"""The state of one GPU as a value, and what decides it."""

from __future__ import annotations

from amd_gpu_tracker.life.status import GpuUse
from amd_gpu_tracker.records.drains import Drain
from amdgpu_discovery.health.reading import SICK, SUSPECT, Health
from amdgpu_discovery.plain_text import printable
from amdgpu_discovery.value import Value

FREE = "free"
RESERVED = "reserved"
IN_USE = "in use"
DRAINING = "draining"
DRAINED = "drained"
LOST = "lost"
# What has a GPU in these states, lists say.
USUAL = (FREE, RESERVED, IN_USE)
STATES = (FREE, RESERVED, IN_USE, DRAINING, DRAINED, SUSPECT, SICK, LOST)


class GpuProcess(Value):
    """A process that uses a GPU.

    Attributes:
        pid: Its id; 0 where it is one of another pid namespace.
        program: What it calls itself; "" where it is not known.
        person: Name of the user whose it is, or the number; "" where it is not known.
        vram_bytes: Video memory that it uses.
    """

    pid: int
    program: str = ""
    person: str = ""
    vram_bytes: int = 0


class GpuState(GpuUse):
    """A GPU of the host, or one that was tracked and is lost.

    Attributes:
        tracked_number: The number that it had when GPUs were tracked; differs while another GPU is lost.
        model: Name of the model; "" of a lost GPU.
        state: One of FREE, RESERVED, IN_USE, DRAINING, DRAINED, SUSPECT, SICK, LOST.
        reason: Why, where there is something to say, as a clause.
        since: Since when, in seconds since 1970 (UTC); None where that is not known.
        processes: The processes that use it, those with most memory first.
        person: Who has it; "" if it is free, or if that is not known.
        what: What has it: a container, a job or a program; "" where nothing.
        vram_used: Bytes of its memory that are used.
        vram_total: Bytes of its memory.
        busy_percent: How much of the last moments it has worked.
        health: What the driver says of it, with temperature, power and errors.
    """

    FREE, RESERVED, IN_USE, DRAINING, DRAINED, LOST = FREE, RESERVED, IN_USE, DRAINING, DRAINED, LOST
    SUSPECT, SICK = SUSPECT, SICK

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
    busy_percent: int | None = None
    health: Health = Health()

    @property
    def is_lost(self) -> bool:
        """Return whether it was tracked and is no longer there."""
        return self.state == LOST

    @property
    def trouble(self) -> str:
        """Return why it is not given out, or only as the last, as a sentence; "" for any other."""
        if self.state in USUAL:
            return ""
        return printable(f"GPU {self.number} is {self.state}{f': {self.reason}' if self.reason else ''}")

    @property
    def temperature(self) -> float | None:
        """Return how warm its hottest place is, in degrees Celsius."""
        return self.health.measured.temperature

    @property
    def watts(self) -> float | None:
        """Return what it takes."""
        return self.health.measured.watts


def decide_state(
    health: Health, drain: Drain | None, sick: Drain | None, *, is_reserved: bool, is_used: bool, use: str
) -> tuple[str, str]:
    """Return the state of a GPU that is there, and the reason; `use` says who uses it.

    `sick` is what root noted of it, which counts until root has seen it well. A GPU that is drained and sick is drained
    everywhere, and the reason has both.
    """
    trouble = "; ".join(health.reasons) if health.verdict == SICK else sick.reason if sick else ""
    if drain:
        reason = "; ".join(filter(None, (drain.reason, trouble and f"sick: {trouble}")))
        return (DRAINING if is_reserved or is_used else DRAINED), reason
    if trouble:
        return SICK, trouble
    if health.verdict == SUSPECT:
        return SUSPECT, "; ".join(health.reasons)
    if is_reserved:
        return RESERVED, ""
    return (IN_USE, use) if is_used else (FREE, "")
