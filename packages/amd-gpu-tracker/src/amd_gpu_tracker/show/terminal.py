"""Lists on a terminal, drawn by rich to its width; imported only where the output is one."""

from __future__ import annotations

import textwrap

from rich.box import Box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from amd_gpu_tracker.records.plain_text import printable
from amd_gpu_tracker.show.listing import cut_id, fit_columns, shorten, width_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.show.listing import Column, Listing

# The rules of the guide's tables: one below the header, and none between rows or columns.
RULES = Box("    \n    \n ---\n    \n    \n    \n    \n    \n", ascii=True)
# Colours repeat what the words say.
STYLES = {"-": "dim", "Exclusive": "yellow"}


def make_console() -> Console:
    """Return the terminal; rich leaves out colours where NO_COLOR is set or the terminal has none."""
    return Console(highlight=False, markup=False, emoji=False)


def print_listing(listing: Listing, console: Console, *, no_trunc: bool) -> None:
    """Print a list as wide as the terminal, or whole."""
    fitted = find_columns(listing, console, no_trunc=no_trunc)
    # What is wider is continued in the next line by the terminal, which rich would do between columns.
    console.width = max(console.width, width_of(fitted.values()))
    console.print(draw(wrap(listing, fitted), fitted, console))


def find_columns(listing: Listing, console: Console, *, no_trunc: bool) -> dict[int, int]:
    """Return the columns that are shown and their widths, by position; ids are whole where all of it fits."""
    whole = [max(map(cell_len, values)) for values in zip(*_texts(listing), strict=True)]
    if no_trunc or width_of(whole) <= console.width:
        return dict(enumerate(whole))
    cut = [
        max(cell_len(cut_id(text) if column.is_id else text) for text in values)
        for column, values in zip(listing.columns, zip(*_texts(listing), strict=True), strict=True)
    ]
    return fit_columns(listing.columns, cut, console.width)


def wrap(listing: Listing, fitted: dict[int, int]) -> Listing:
    """Return the list with a row for each line of what does not fit in a column that wraps."""
    wrapping = [at for at in fitted if listing.columns[at].wraps]
    rows = listing.rows
    for at in wrapping:
        rows = tuple(line for row in rows for line in _lines(row, at, fitted[at]))
    return listing.replace(rows=rows)


def draw(listing: Listing, fitted: dict[int, int], console: Console) -> Group:
    """Return what rich draws: the rule above the header, and the table."""
    table = _table([(listing.columns[at], width) for at, width in fitted.items()])
    mark = "…" if console.encoding.lower().startswith("utf") else ".."
    for row in _texts(listing)[1:]:
        table.add_row(*(_cell(listing.columns[at], row[at], width, mark) for at, width in fitted.items()))
    return Group(Text("-" * width_of(fitted.values())), table)


def _lines(row: tuple[str, ...], at: int, width: int) -> list[tuple[str, ...]]:
    """Return a row and those that go on with its text in the column `at`."""
    parts = textwrap.wrap(printable(row[at]), width) or [""]
    firsts = [row, *[("",) * len(row)] * (len(parts) - 1)]
    return [(*first[:at], part, *first[at + 1 :]) for first, part in zip(firsts, parts, strict=True)]


def _texts(listing: Listing) -> list[tuple[str, ...]]:
    headers = tuple(column.header for column in listing.columns)
    return [tuple(map(printable, row)) for row in (headers, *listing.rows)]


def _table(columns: list[tuple[Column, int]]) -> Table:
    # The gap between two columns is the padding and the divider between them.
    table = Table(box=RULES, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, width in columns:
        justify = "right" if column.is_number else "left"
        table.add_column(column.header, width=width, no_wrap=True, overflow="crop", justify=justify)  # type: ignore[arg-type]
    return table


def _cell(column: Column, text: str, width: int, mark: str) -> Text:
    style = STYLES.get(text, "")
    if cell_len(text) > width and column.is_id:
        text = cut_id(text)
    return Text(shorten(text, width, mark) if cell_len(text) > width else text, style=style)
