"""A screen that follows what changes; it gives the terminal back at Ctrl-C, and for as long as Ctrl-Z stops it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from rich.live import Live

from amd_gpu_tracker.show.events import RESIZED, STOPPED, Events
from amd_gpu_tracker.show.page import draw_page
from amd_gpu_tracker.show.terminal import make_console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from amd_gpu_tracker.show.listing import Page

# Without a handler for these the screen would stay as it is.
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def watch_screen(
    title: str, look: Callable[[Console, str], Page | None], *, seconds: float, takes_keys: bool = False
) -> None:
    """Show what `look` returns for a terminal and the keys that were typed, "" for none, until it returns None.

    Without keys, and with them too, Ctrl-C and a signal to end do so.
    """
    console = make_console()
    for number in ENDING:
        signal.signal(number, _end)
    with suppress(KeyboardInterrupt):
        # What fails now, or takes its time, does so before there is a screen.
        while (page := look(console, "")) and _follow(
            title, page, look, console, seconds=seconds, takes_keys=takes_keys
        ):
            # As a program without a handler stops, until it is continued (SIGCONT).
            os.kill(os.getpid(), signal.SIGTSTP)


def _follow(
    title: str,
    first: Page,
    look: Callable[[Console, str], Page | None],
    console: Console,
    *,
    seconds: float,
    takes_keys: bool,
) -> bool:
    """Show page after page; return whether Ctrl-Z ends it."""
    page: Page | None = first
    with Events(takes_keys=takes_keys) as events, Live(console=console, screen=True, auto_refresh=False) as live:
        while page:
            live.update(draw_page(page.title or title, page, console), refresh=True)
            event = events.wait(seconds)
            if event == STOPPED:
                return True
            if event != RESIZED:
                page = look(console, event)
    return False


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)
