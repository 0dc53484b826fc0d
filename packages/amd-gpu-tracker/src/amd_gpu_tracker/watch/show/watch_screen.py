"""A screen that follows changes; it gives the terminal back at Ctrl-C, and for as long as Ctrl-Z stops it.

It has a title with a clock, a list, and notes, and uses all lines and columns of the terminal.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from contextlib import suppress

from rich.console import Group
from rich.live import Live
from rich.text import Text

from amd_gpu_tracker.watch.show.listing import Page, crop_columns
from amd_gpu_tracker.watch.show.terminal import draw, find_columns, make_console, wrap
from amdgpu_discovery.untrusted.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rich.console import Console
    from typing_extensions import Self


# Represented by the keys with the same meaning: Ctrl-Z, and Ctrl-L.
STOPPED = "\x1a"
RESIZED = "\x0c"
# Longer than what one key sends, because several may have been typed.
MOST_TYPED = 64
STANDARD_INPUT = 0
EVENT_BY_SIGNAL = {int(signal.SIGTSTP): STOPPED, int(signal.SIGWINCH): RESIZED}
# Without a handler for these signals, the screen would stay as it is.
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# On lower screens, rows take the lines of the rules, then that of the title.
LEAST_WITH_RULES = 8
LEAST_WITH_TITLE = 4
# Title, the line below it, and the three lines above the rows of a table with rules; without rules, only the header.
LINES_WITH_RULES = 5
# Notes may take a quarter of the lines from the rows, and all lines that the rows leave.
SHARE_OF_NOTES = 4


class Events:
    """Waits for the events of a screen; within `with`, keys come one by one and are not shown."""

    def __init__(self, *, takes_keys: bool) -> None:
        self._takes_keys = takes_keys and os.isatty(STANDARD_INPUT)

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._handlers = {number: signal.signal(number, _do_nothing) for number in EVENT_BY_SIGNAL}
        # Otherwise a signal just before the wait below would go unseen until the next page.
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        if self._takes_keys:
            self._settings = termios.tcgetattr(STANDARD_INPUT)
            tty.setcbreak(STANDARD_INPUT)
        return self

    def __exit__(self, *_: object) -> None:
        if self._takes_keys:
            termios.tcsetattr(STANDARD_INPUT, termios.TCSADRAIN, self._settings)
        signal.set_wakeup_fd(-1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        os.close(self._reader)
        os.close(self._writer)

    def wait(self, seconds: float) -> str:
        """Return STOPPED, RESIZED, the keys that were typed, or "" after this many seconds."""
        inputs = [self._reader]
        if self._takes_keys:
            inputs.append(STANDARD_INPUT)
        ready = select.select(inputs, [], [], seconds)[0]
        if self._reader in ready:
            events = {EVENT_BY_SIGNAL.get(number, "") for number in os.read(self._reader, MOST_TYPED)}
            return next((event for event in (STOPPED, RESIZED) if event in events), "")
        if not ready:
            return ""
        typed = os.read(STANDARD_INPUT, MOST_TYPED)
        # A terminal that is gone returns empty reads at once, for ever.
        self._takes_keys = self._takes_keys and bool(typed)
        return typed.decode("utf-8", "replace")


def _do_nothing(_number: int, _frame: Any) -> None:
    """Handle a signal: without a handler, it would stop the program or go unseen."""


def watch_screen(
    title: str, next_page: Callable[[Console, str], Page | None], *, seconds: float, takes_keys: bool = False
) -> None:
    """Show what `next_page` returns for a terminal and the keys that were typed, "" for none, until it returns None.

    Ctrl-C and signals that end a program also end the screen, whether it takes keys or not.
    """
    console = make_console()
    for number in ENDING:
        signal.signal(number, _end)
    with suppress(KeyboardInterrupt):
        # If the first page fails or takes long, there is no screen yet.
        while (page := next_page(console, "")) and _show_pages(
            title, page, next_page, console, seconds=seconds, takes_keys=takes_keys
        ):
            # Stop like a program without a handler, until it is continued (SIGCONT).
            os.kill(os.getpid(), signal.SIGTSTP)


def _show_pages(
    title: str,
    first: Page,
    next_page: Callable[[Console, str], Page | None],
    console: Console,
    *,
    seconds: float,
    takes_keys: bool,
) -> bool:
    """Show page after page; return whether Ctrl-Z ended that."""
    page: Page | None = first
    with Events(takes_keys=takes_keys) as events, Live(console=console, screen=True, auto_refresh=False) as live:
        while page:
            live.update(draw_page(page.title or title, page, console), refresh=True)
            event = events.wait(seconds)
            if event == STOPPED:
                return True
            if event != RESIZED:
                page = next_page(console, event)
    return False


def _end(number: int, _: object) -> None:
    sys.exit(128 + number)


def draw_page(title: str, page: Page, console: Console) -> Group:
    """Return what rich draws for a page."""
    has_rules = console.height >= LEAST_WITH_RULES
    has_title = console.height >= LEAST_WITH_TITLE
    head = [Text(_head(title, console.width) + "\n" * has_rules, no_wrap=True, overflow="crop")] if has_title else []
    if isinstance(page.shown, str):
        return Group(*head, Text(page.shown))
    fitted = crop_columns(page.shown.columns, find_columns(page.shown, console, no_trunc=False), console.width)
    # An empty row continues the one above it in columns that are not shown.
    rows = tuple(row for row in wrap(page.shown, fitted, console).rows if any(row[at] for at in fitted))
    room = console.height - (LINES_WITH_RULES if has_rules else 1 + has_title)
    notes = _draw_notes(page.notes, room - len(rows), console)
    count = _count_shown(len(rows), room - len(notes))
    drawn = draw(page.shown.replace(rows=rows[:count]), fitted, console, has_rules=has_rules)
    return Group(*head, drawn, *_format_rest(len(rows) - count, "lines"), *notes)


def _head(title: str, width: int) -> str:
    """Return the title and the clock, with the date if there is room for it."""
    for form in ("%Y-%m-%d %H:%M:%S", "%H:%M:%S"):
        clock = time.strftime(form)
        if len(title) + 1 + len(clock) <= width:
            return f"{title}{clock:>{width - len(title)}}"
    return title


def _draw_notes(notes: Sequence[str], spare: int, console: Console) -> list[Text]:
    """Draw the lines of the notes for which there is room, and count the others."""
    lines = [line for note in notes for line in Text(printable(note)).wrap(console, console.width)]
    room = max(0, spare, console.height // SHARE_OF_NOTES if console.height >= LEAST_WITH_RULES else 0)
    count = _count_shown(len(lines), room)
    return [*lines[:count], *_format_rest(len(lines) - count, "lines of notes")][:room]


def _count_shown(count: int, room: int) -> int:
    """Return how many lines are shown if a further line has to count the others."""
    return count if count <= room else max(0, room - 1)


def _format_rest(count: int, what: str) -> list[Text]:
    return [Text(f"... {count} more {what}", no_wrap=True, overflow="crop")] if count else []
