"""Print the table of all GPUs and their states once."""

from __future__ import annotations

import time

from amd_gpu_tracker.states.text import (
    BLOCKS,
    DISABLED,
    PLAIN,
    format_states,
    idle_notes,
    list_states,
    state_notes,
)
from amd_gpu_tracker.usage.text import format_duration
from amdgpu_discovery.standard_output import is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rich.console import Console

    from amd_gpu_tracker.states.state import GpuState
    from amd_gpu_tracker.tracker import Tracker


def print_states_json(tracker: Tracker) -> None:
    """Print the states of all GPUs as they are now, for programs."""
    from amd_gpu_tracker.states.document import format_states_json

    print(format_states_json(tracker.states(), [ticket.since for ticket in tracker.waiting()]))


def print_states(tracker: Tracker) -> None:
    """Print the states of all GPUs as they are now: on a terminal drawn to its width, elsewhere whole."""
    states, now = tracker.states(), time.time()
    if is_terminal():
        from amd_gpu_tracker.show.terminal import make_console, print_listing

        console = make_console()
        blocks = BLOCKS if can_draw(console) else PLAIN
        print_listing(list_states(states, now=now, blocks=blocks), console, no_trunc=False)
    else:
        print(format_states(states, now=now))
    for note in notes_of(tracker, states, now):
        print(note)


def notes_of(tracker: Tracker, states: tuple[GpuState, ...], now: float) -> list[str]:
    """Return what the list cannot say: why GPUs are not given out, who waits, and what is not known."""
    waiting = [ticket.since for ticket in tracker.waiting()]
    jobs = f"{len(waiting)} job{' waits' if len(waiting) == 1 else 's wait'} for GPUs"
    return [
        *state_notes(states),
        *idle_notes(states, now=now),
        *([f"{jobs}, the first for {format_duration(now - min(waiting))}"] if waiting else []),
        *([] if any(gpu.accessibility for gpu in states) else [DISABLED]),
    ]


def can_draw(console: Console) -> bool:
    """Return whether a terminal has the characters of which bars are made."""
    return console.encoding.lower().startswith("utf")
