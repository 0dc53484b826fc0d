"""Show all GPUs and their states: once, as JSON, or for as long as the user looks."""

from __future__ import annotations

import time

from amd_gpu_tracker.show.listing import Page
from amd_gpu_tracker.states.text import STATE, blocks_for, count_states, format_states, list_states, notes_of
from amdgpu_discovery.standard_output import is_terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.show.listing import Column
    from amd_gpu_tracker.tracker import Tracker


def find_page(tracker: Tracker, *, now: float) -> Page:
    """Return all GPUs as a page: their number in each state, the list, and notes below it."""
    states = tracker.states()
    notes = notes_of(states, [ticket.since for ticket in tracker.waiting()], now=now)
    return Page(shown=list_states(states, now=now), notes=tuple(notes), title=count_states(states))


def state_column(*, yields: int) -> Column:
    """Return the column of states for another list, with its colours; `yields` is as in `Column`."""
    return STATE.replace(yields=yields)


def print_states_json(tracker: Tracker) -> None:
    """Print the states of all GPUs as they are now, for programs."""
    from amd_gpu_tracker.states.documents import format_states_json

    print(format_states_json(tracker.states(), [ticket.since for ticket in tracker.waiting()]))


def print_states(tracker: Tracker) -> None:
    """Print the states of all GPUs as they are now: on a terminal drawn to its width, elsewhere whole."""
    states, now = tracker.states(), time.time()
    if is_terminal():
        from amd_gpu_tracker.show.terminal import make_console, print_listing

        console = make_console()
        print_listing(list_states(states, now=now, blocks=blocks_for(console.encoding)), console, no_trunc=False)
    else:
        print(format_states(states, now=now))
    for note in notes_of(states, [ticket.since for ticket in tracker.waiting()], now=now):
        print(note)


def watch_states(tracker: Tracker) -> None:
    """Show the states of all GPUs until `q` or Ctrl-C on a terminal; elsewhere once."""
    if not is_terminal():
        print_states(tracker)
        return
    from amd_gpu_tracker.show.watch_screen import watch_screen
    from amd_gpu_tracker.top import LOOK_SECONDS, Screen

    watch_screen("GPUs", Screen(tracker).look, seconds=LOOK_SECONDS, takes_keys=True)
