"""A screen that follows what changes, with a clock; it fits the terminal, and Ctrl-C gives the terminal back."""

from __future__ import annotations

import signal
import sys
import time

from rich.console import Group
from rich.live import Live
from rich.text import Text

from amd_gpu_tracker.show.terminal import draw, find_columns, make_console, wrap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from amd_gpu_tracker.show.listing import Listing

# The clock, the line below it, and the three lines above the rows of a table.
LINES_AROUND = 5


def watch_screen(title: str, look: Callable[[Console], Listing | str], *, seconds: float) -> None:
    """Show what `look` returns for a terminal, a list or a sentence, until Ctrl-C or a signal to end."""
    console = make_console()
    # Without a handler the screen would stay as it is.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:
            while True:
                live.update(_page(title, look(console), console), refresh=True)
                time.sleep(seconds)
    except KeyboardInterrupt:
        return


def _page(title: str, shown: Listing | str, console: Console) -> Group:
    clock = time.strftime("%Y-%m-%d %H:%M:%S")
    head = Text(f"{title}{clock:>{max(1, console.width - len(title))}}\n", no_wrap=True, overflow="crop")
    return Group(head, Text(shown) if isinstance(shown, str) else _draw_fitting(shown, console))


def _draw_fitting(listing: Listing, console: Console) -> Group:
    """Draw the rows for which there is room, and say how many there are besides."""
    fitted = find_columns(listing, console, no_trunc=False)
    listing = wrap(listing, fitted)
    room = max(1, console.height - LINES_AROUND)
    if len(listing.rows) <= room:
        return draw(listing, fitted, console)
    shown = listing.replace(rows=listing.rows[: room - 1])
    return Group(draw(shown, fitted, console), Text(f"... {len(listing.rows) - room + 1} more lines", no_wrap=True))


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)
