"""Shows all GPUs and their states: once, as JSON, or until the user ends it."""

from __future__ import annotations

import time

from amd_gpu_tracker.watch.show.listing import Column, Page
from amd_gpu_tracker.watch.states.state import STATES, GpuState
from amd_gpu_tracker.watch.states.text import (
    BLOCKS,
    STATE,
    blocks_for,
    count_states,
    format_states,
    list_states,
    notes_of,
)
from amdgpu_discovery.command_line.standard_output import is_terminal
from amdgpu_discovery.driver.other_drivers import find_foreign_gpus
from amdgpu_discovery.errors import ToolkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from amd_gpu_tracker.face.tracker import Tracker

# A refresh may read the open files of every process, which takes a tenth of a second if there are thousands.
REFRESH_SECONDS = 2.0
# Reading error counters accesses the hardware.
ERROR_SECONDS = 600.0
TREND_LENGTH = 8
# What arrow keys and the like send (ECMA-48).
SEQUENCE = r"\x1b(\[[0-?]*[ -/]*[@-~]|O.|.)?"
# The orders that `s` selects in turn: what people look for comes first.
RANK_BY_ORDER: dict[str, Callable[[GpuState], object]] = {
    "number": lambda _: 0,
    "state": lambda gpu: -STATES.index(gpu.state),
    "busy": lambda gpu: -(gpu.busy_percent or 0),
    "memory": lambda gpu: -(gpu.vram_used or 0),
    "person": lambda gpu: (not gpu.person, gpu.person),
}
ORDERS = tuple(RANK_BY_ORDER)
HELP = """\
q    end
s    sort by number, state, busy, memory, person
?    this help, and back

free         not reserved, and not in use
reserved     a container or a job has it
in use       a program uses it without a reservation
draining     drained, but still in use
drained      not given out until 'sudo amd-ctk gpu-tracker undrain GPUS'
suspect      errors, retired memory, heat, a narrow link: chosen last
sick         its driver gave up on it: not given out
dirty        an ended job left something on it: not given out
lost         tracked, but no longer on this host
"""


def find_page(tracker: Tracker, *, now: float) -> Page:
    """Return all GPUs as a page: their number in each state, the list, and notes below it."""
    states = tracker.states(with_all_processes=False)
    return Page(
        shown=list_states(states, now=now), notes=_notes_of(tracker, states, now=now), title=count_states(states)
    )


def _notes_of(tracker: Tracker, states: Sequence[GpuState], *, now: float) -> tuple[str, ...]:
    notes = notes_of(states, [ticket.since for ticket in tracker.waiting()], now=now)
    foreign = [f"Not listed: {gpu.words}" for gpu in find_foreign_gpus(tracker.host)]
    return tuple(filter(None, (tracker.service_problem(), *notes, *tracker.pod_notes(), *foreign)))


def state_column(*, yields: int) -> Column:
    """Return the column of states for another list, with its colours; `yields` is as in `Column`."""
    return STATE.replace(yields=yields)


def print_states_json(tracker: Tracker) -> None:
    """Print the current states of all GPUs as JSON."""
    from amd_gpu_tracker.watch.states.documents import format_states_json

    states = tracker.states(with_all_processes=False)
    print(format_states_json(states, [ticket.since for ticket in tracker.waiting()]))


def print_states(tracker: Tracker) -> None:
    """Print the current states of all GPUs: fitted to the width of a terminal, elsewhere complete."""
    states = tracker.states(with_all_processes=False)
    now = time.time()
    if is_terminal():
        from amd_gpu_tracker.watch.show.terminal import make_console, print_listing

        console = make_console()
        print_listing(list_states(states, now=now, blocks=blocks_for(console.encoding)), console, no_trunc=False)
    else:
        print(format_states(states, now=now))
    for note in _notes_of(tracker, states, now=now):
        print(note)


def watch_states(tracker: Tracker) -> None:
    """Show the states of all GPUs until `q` or Ctrl-C on a terminal; elsewhere once."""
    if not is_terminal():
        print_states(tracker)
        return
    from amd_gpu_tracker.watch.show.watch_screen import watch_screen

    watch_screen("GPUs", Screen(tracker).next_page, seconds=REFRESH_SECONDS, takes_keys=True)


class Screen:
    """What is kept between two refreshes, and what keys have selected."""

    def __init__(self, tracker: Tracker) -> None:
        """Show the GPUs of a tracker's host."""
        self._tracker = tracker
        self._states: tuple[GpuState, ...] = ()
        self._failure = ""
        self._notes: tuple[str, ...] = ()
        self._trends: dict[str, list[int]] = {}
        self._errors_read = -ERROR_SECONDS
        self._order = 0
        self._shows_help = False

    def next_page(self, console: Console, keys: str) -> Page | None:
        """Return the page after these keys, None after `q`; without keys the GPUs are read again."""
        if not keys:
            self._refresh()
        elif not all(map(self._handle_key, _without_sequences(keys))):
            return None
        return self._page(console)

    def _handle_key(self, key: str) -> bool:
        """Handle a key; return whether the screen stays."""
        if key == "s" and not self._shows_help:
            self._order = (self._order + 1) % len(ORDERS)
        self._shows_help = key == "?" and not self._shows_help
        return key not in "qQ"

    def _refresh(self) -> None:
        asks_errors = time.monotonic() - self._errors_read >= ERROR_SECONDS
        try:
            self._states = self._tracker.states(with_errors=asks_errors, with_all_processes=False, earlier=self._states)
            self._notes = _notes_of(self._tracker, self._states, now=time.time())
            self._failure = ""
        except ToolkitError as error:
            if not self._states:
                raise
            self._failure = str(error)
            return
        self._errors_read = time.monotonic() if asks_errors else self._errors_read
        for gpu in self._states:
            trend = [*self._trends.get(gpu.key, ()), gpu.busy_percent or 0]
            self._trends[gpu.key] = trend[-TREND_LENGTH:]

    def _page(self, console: Console) -> Page:
        if self._shows_help or self._failure:
            return Page(shown=HELP if self._shows_help else self._failure)
        order = ORDERS[self._order]
        blocks = blocks_for(console.encoding)
        listing = list_states(
            sorted(self._states, key=lambda gpu: (RANK_BY_ORDER[order](gpu), gpu.tracked_number)),
            now=time.time(),
            blocks=blocks,
            trends=self._trends if blocks == BLOCKS else None,
        )
        keys = f"q ends, s sorts (by {order}), ? helps"
        return Page(shown=listing, notes=(*self._notes, keys), title=count_states(self._states))


def _without_sequences(keys: str) -> str:
    # Its import takes a tenth of the time of the list in a pipe, which never reads keys.
    import re

    return re.sub(SEQUENCE, "", keys)
