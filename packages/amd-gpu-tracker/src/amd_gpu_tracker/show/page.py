"""A page of a screen: a title with a clock, a list, and notes, in as many lines and columns as there are."""

from __future__ import annotations

import time

from rich.console import Group
from rich.text import Text

from amd_gpu_tracker.show.listing import crop_columns
from amd_gpu_tracker.show.terminal import draw, find_columns, wrap
from amdgpu_discovery.plain_text import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

    from amd_gpu_tracker.show.listing import Listing, Page

# On lower screens rows have the lines of the rules, then that of the title.
LEAST_WITH_RULES = 8
LEAST_WITH_TITLE = 4
# The title, the line below it, and the three lines above the rows of a table with rules; the header alone without.
LINES_WITH_RULES = 5
# Notes take this share of the lines from the rows, and what the rows leave.
SHARE_OF_NOTES = 4


def draw_page(title: str, page: Page, console: Console) -> Group:
    """Return what rich draws of a page."""
    has_rules = console.height >= LEAST_WITH_RULES
    has_title = console.height >= LEAST_WITH_TITLE
    head = [Text(_head(title, console.width) + "\n" * has_rules, no_wrap=True, overflow="crop")] if has_title else []
    if isinstance(page.shown, str):
        return Group(*head, Text(page.shown))
    fitted = crop_columns(page.shown.columns, find_columns(page.shown, console, no_trunc=False), console.width)
    listing = _without_blank_rows(wrap(page.shown, fitted, console), fitted)
    room = console.height - (LINES_WITH_RULES if has_rules else 1 + has_title)
    notes = _draw_notes(page.notes, room - len(listing.rows), console)
    count = _count_shown(len(listing.rows), room - len(notes))
    drawn = draw(listing.replace(rows=listing.rows[:count]), fitted, console, has_rules=has_rules)
    return Group(*head, drawn, *_say_more(len(listing.rows) - count, "lines"), *notes)


def _head(title: str, width: int) -> str:
    """Return the title and the clock, with the date where there is room for it."""
    for form in ("%Y-%m-%d %H:%M:%S", "%H:%M:%S"):
        clock = time.strftime(form)
        if len(title) + 1 + len(clock) <= width:
            return f"{title}{clock:>{width - len(title)}}"
    return title


def _without_blank_rows(listing: Listing, fitted: Collection[int]) -> Listing:
    """Return a list without the rows of which nothing is left: they continue the one above them in other columns."""
    return listing.replace(rows=tuple(row for row in listing.rows if any(row[at] for at in fitted)))


def _draw_notes(notes: Sequence[str], spare: int, console: Console) -> list[Text]:
    """Draw the lines of the notes for which there is room, and say how many there are besides."""
    lines = [line for note in notes for line in Text(printable(note)).wrap(console, console.width)]
    room = max(0, spare, console.height // SHARE_OF_NOTES if console.height >= LEAST_WITH_RULES else 0)
    count = _count_shown(len(lines), room)
    return [*lines[:count], *_say_more(len(lines) - count, "lines of notes")][:room]


def _count_shown(count: int, room: int) -> int:
    """Return how many of so many lines are shown, where another one says how many are not."""
    return count if count <= room else max(0, room - 1)


def _say_more(count: int, what: str) -> list[Text]:
    return [Text(f"... {count} more {what}", no_wrap=True, overflow="crop")] if count else []
