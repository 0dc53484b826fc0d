"""Formats the states of all GPUs for people: a list, and the sentences below it."""

from __future__ import annotations

import time

from amd_gpu_tracker.watch.show.listing import (
    DISABLED,
    LIMIT,
    Column,
    Listing,
    format_limit,
    format_listing,
    format_share,
)
from amd_gpu_tracker.watch.states.state import DIRTY, DRAINED, DRAINING, FREE, IN_USE, LOST, RESERVED, STATES, GpuState
from amdgpu_discovery.health.reading import SICK, SUSPECT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


NOTHING = "-"
ASLEEP = "asleep"
STATE_STYLES = (
    (FREE, "green"),
    (RESERVED, "cyan"),
    (IN_USE, "yellow"),
    (DRAINING, "magenta"),
    (DRAINED, "magenta"),
    (SUSPECT, "bold yellow"),
    (DIRTY, "bold yellow"),
    (SICK, "bold red"),
    (LOST, "bold red"),
)
STATE = Column(header="State", styles=STATE_STYLES)
BAR, TREND, ENDS = "", "Trend", "Ends in"
BAR_STYLES = (("", "cyan"),)
# The column that a narrow terminal can best do without yields first.
COLUMNS = (
    Column(header="GPU", is_whole=True),
    Column(header="Model", yields=1),
    STATE,
    Column(header="VRAM", is_number=True),
    Column(header=BAR, yields=5, styles=BAR_STYLES),
    Column(header="Memory", yields=2, is_number=True),
    Column(header=LIMIT, yields=9, is_number=True),
    Column(header="Busy", is_number=True),
    Column(header=TREND, yields=3, styles=BAR_STYLES),
    Column(header="Temp", yields=7, is_number=True),
    Column(header="Watt", yields=6, is_number=True),
    Column(header="Who", least=8),
    Column(header="What", least=8),
    Column(header="Since", yields=4),
    Column(header=ENDS, yields=8),
)
BAR_WIDTH = 8
# The characters for a bar and its rest, on terminals with and without block characters.
BLOCKS, PLAIN = "█░", "#."
STEPS = "▁▂▃▄▅▆▇█"


def format_states(states: Sequence[GpuState], *, now: float) -> str:
    """Return the list of the states, without bars, for files and programs."""
    return format_listing(list_states(states, now=now))


def list_states(
    states: Sequence[GpuState], *, now: float, blocks: str = "", trends: Mapping[str, Sequence[int]] | None = None
) -> Listing:
    """Return a row for each GPU in the order given.

    `blocks` are the two characters for bars, "" for no bars. `trends` are the busy percentages of the last refreshes by
    `GpuState.key`, oldest first.
    """
    wanted = {
        BAR: bool(blocks),
        LIMIT: any(gpu.limit_bytes is not None for gpu in states),
        TREND: trends is not None,
        ENDS: any(_end(gpu) is not None for gpu in states),
    }
    columns = tuple(column for column in COLUMNS if wanted.get(column.header, True))
    rows = [_cells(gpu, now, blocks, (trends or {}).get(gpu.key, ())) for gpu in states]
    return Listing(columns=columns, rows=tuple(tuple(row[column.header] for column in columns) for row in rows))


def blocks_for(encoding: str) -> str:
    """Return the characters for bars on a terminal with this encoding."""
    return BLOCKS if encoding.lower().startswith("utf") else PLAIN


def count_states(states: Sequence[GpuState]) -> str:
    """Return how many GPUs are in each state."""
    counts = [(sum(gpu.state == state for gpu in states), state) for state in STATES]
    return f"{len(states)} GPU{'' if len(states) == 1 else 's'}: " + ", ".join(
        f"{count} {state}" for count, state in counts if count
    )


def notes_of(states: Sequence[GpuState], waiting_since: Sequence[float], *, now: float) -> list[str]:
    """Return sentences about GPUs that are not given out or idle, about waiting jobs, and about what is unknown."""
    notes = [gpu.trouble for gpu in states if gpu.trouble]
    notes += hidden_notes(states)
    notes += idle_notes(states, now=now)
    if waiting_since:
        # Imported here, because mostly nobody waits.
        from amd_gpu_tracker.times import format_minutes

        jobs = "1 job waits" if len(waiting_since) == 1 else f"{len(waiting_since)} jobs wait"
        notes.append(f"{jobs} for GPUs, the first for {format_minutes(now - min(waiting_since))}")
    if not any(gpu.accessibility for gpu in states):
        notes.append(DISABLED)
    return notes


def hidden_notes(states: Sequence[GpuState]) -> list[str]:
    """Return a sentence about GPUs that the device cgroup of this process hides, if there are any."""
    from amdgpu_discovery.numbering import hidden_numbers

    # A lost GPU is none that this process may use.
    hidden = hidden_numbers([gpu for gpu in states if gpu.host_total])
    if not hidden:
        return []
    from amdgpu_discovery.choices.unknown_gpus import describe_hidden

    return [describe_hidden(hidden)]


def idle_notes(states: Iterable[GpuState], *, now: float) -> list[str]:
    """Return sentences about idle GPUs whose owners were warned."""
    uses = ((gpu, gpu.containers[0]) for gpu in states if gpu.containers)
    return [
        f"{gpu.name} is idle since {_clock(use.idle_since)}, preemptible"
        f"{'' if now >= use.preemptible_at else f' from {_clock(use.preemptible_at)} on'}"
        for gpu, use in uses
        if use.idle_since is not None
        and use.preemptible_at is not None
        and 2 * now >= use.idle_since + use.preemptible_at
    ]


def _clock(moment: float) -> str:
    return time.strftime("%H:%M", time.localtime(moment))


def _cells(gpu: GpuState, now: float, blocks: str, trend: Sequence[int]) -> dict[str, str]:
    share = None if gpu.vram_used is None or not gpu.vram_total else min(1.0, gpu.vram_used / gpu.vram_total)
    return {
        "GPU": gpu.listed_number,
        "Model": gpu.model or NOTHING,
        "State": gpu.state,
        "VRAM": _number(None if share is None else 100 * share, "%"),
        BAR: "" if share is None else _bar(share, blocks),
        "Memory": format_share(gpu.vram_used, gpu.vram_total),
        LIMIT: format_limit(gpu.limit_bytes, gpu.charged_bytes),
        "Busy": _number(gpu.busy_percent, "%"),
        TREND: "".join(STEPS[busy * len(STEPS) // 101] for busy in trend).rjust(BAR_WIDTH),
        "Temp": _number(gpu.temperature, "C"),
        "Watt": _number(gpu.watts, "W"),
        "Who": gpu.person or NOTHING,
        "What": _what(gpu),
        "Since": NOTHING if gpu.since is None else _age(now - gpu.since),
        ENDS: NOTHING if (end := _end(gpu)) is None else _age(end - now),
    }


def _age(seconds: float) -> str:
    # Imported here, because a list in which nobody has a GPU shows no time.
    from amd_gpu_tracker.times import format_short_age

    return format_short_age(seconds)


def _end(gpu: GpuState) -> float | None:
    """Return the time limit of a GPU's reservation, None if it has none."""
    return gpu.containers[0].until if gpu.containers else None


def _number(value: float | None, unit: str) -> str:
    return NOTHING if value is None else f"{value:.0f} {unit}"


def _bar(share: float, blocks: str) -> str:
    """Return a bar; if the share is not 0, at least one block is full."""
    full = -(-int(share * 1000) * BAR_WIDTH // 1000)
    return blocks[:1] * full + blocks[1:] * (BAR_WIDTH - full)


def _what(gpu: GpuState) -> str:
    more = len(gpu.containers) or len(gpu.processes)
    asleep = ASLEEP if gpu.health.is_asleep else NOTHING
    part = gpu.containers[0].vram_mb if gpu.containers else 0
    what = f"{gpu.what} ({part} MiB)" if gpu.what and part else gpu.what
    return f"{what} +{more - 1}" if what and more > 1 else what or asleep
