"""A screen that follows what changes; it gives the terminal back at Ctrl-C, and for as long as Ctrl-Z stops it."""

from __future__ import annotations

import os
import signal
import sys

from rich.live import Live

from amd_gpu_tracker.show.page import draw_page
from amd_gpu_tracker.show.terminal import make_console

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from amd_gpu_tracker.show.listing import Page

# Without a handler for these the screen would stay as it is.
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# Ctrl-Z. It is blocked while the screen is there, and waited for between two looks.
STOPPING = (signal.SIGTSTP,)


def watch_screen(title: str, look: Callable[[Console], Page], *, seconds: float) -> None:
    """Show what `look` returns for a terminal, until Ctrl-C or a signal to end."""
    console = make_console()
    for number in ENDING:
        signal.signal(number, _end)
    try:
        while True:
            # What fails now, or takes its time, does so before there is a screen.
            page = look(console)
            signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
            _follow(title, page, look, console, seconds=seconds)
            # As a program without a handler stops, until it is continued (SIGCONT).
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)
            os.kill(os.getpid(), signal.SIGTSTP)
    except KeyboardInterrupt:
        return


def _follow(title: str, page: Page, look: Callable[[Console], Page], console: Console, *, seconds: float) -> None:
    """Show page after page until Ctrl-Z."""
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw_page(title, page, console), refresh=True)
            if signal.sigtimedwait(STOPPING, seconds):
                return
            page = look(console)


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)
