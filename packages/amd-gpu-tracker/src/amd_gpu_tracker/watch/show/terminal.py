"""Draws lists with rich to the width of a terminal; imported only if the output is one."""

from __future__ import annotations

from rich.console import Console, Group
from rich.text import Text

from amd_gpu_tracker.watch.show.listing import GAP, Column, Listing, count_cells, cut_id, fit_columns, shorten, width_of
from amdgpu_discovery.untrusted.plain_text import printable

# Colours only repeat what the words say.
STYLES = {"-": "dim", "Exclusive": "yellow"}


def make_console() -> Console:
    """Return the terminal; rich leaves out colours if NO_COLOR is set or the terminal has none."""
    return Console(highlight=False, markup=False, emoji=False)


def print_listing(listing: Listing, console: Console, *, no_trunc: bool) -> None:
    """Print a list as wide as the terminal, or complete."""
    fitted = find_columns(listing, console, no_trunc=no_trunc)
    # The terminal itself breaks lines that are wider. Otherwise rich would break them between columns.
    console.width = max(console.width, width_of(fitted.values()))
    console.print(draw(wrap(listing, fitted, console), fitted, console))


def find_columns(listing: Listing, console: Console, *, no_trunc: bool) -> dict[int, int]:
    """Return the columns that are shown and their widths, by position; ids are complete if everything fits."""
    texts = _texts(listing, console)
    whole = [max(map(count_cells, values)) for values in zip(*texts, strict=True)]
    if no_trunc or width_of(whole) <= console.width:
        return dict(enumerate(whole))
    cut = [
        max(count_cells(cut_id(text) if column.is_id else text) for text in values)
        for column, values in zip(listing.columns, zip(*texts, strict=True), strict=True)
    ]
    return fit_columns(listing.columns, cut, console.width)


def wrap(listing: Listing, fitted: dict[int, int], console: Console) -> Listing:
    """Return the list with an additional row for each further line of a column that wraps."""
    rows = listing.rows
    for at, width in fitted.items():
        if listing.columns[at].wraps:
            rows = tuple(line for row in rows for line in _lines(row, at, width, console))
    return listing.replace(rows=rows)


def draw(listing: Listing, fitted: dict[int, int], console: Console, *, has_rules: bool = True) -> Group:
    """Return the lines of the table, with a rule above and below the header.

    Rich's own tables differ between its versions: before 15, their last column is wider than asked for.
    """
    header, *rows = _texts(listing, console)
    mark = "…" if console.encoding.lower().startswith("utf") else ".."
    titles = {at: Text(shorten(header[at], width, mark), style="bold") for at, width in fitted.items()}
    rule = [Text("-" * width_of(fitted.values()))] if has_rules else []
    lines = [{at: _cell(listing.columns[at], row[at], width, mark) for at, width in fitted.items()} for row in rows]
    first, *others = (_join(listing, fitted, cells) for cells in (titles, *lines))
    return Group(*rule, first, *rule, *others)


def _join(listing: Listing, fitted: dict[int, int], cells: dict[int, Text]) -> Text:
    """Return a line of the table, without blanks at its end."""
    for at, width in fitted.items():
        cells[at].align("right" if listing.columns[at].is_number else "left", width)
    line = Text(GAP, no_wrap=True, overflow="crop").join(cells.values())
    line.rstrip()
    return line


def _lines(row: tuple[str, ...], at: int, width: int, console: Console) -> list[tuple[str, ...]]:
    """Return a row, and the rows that continue its text in the column `at`."""
    parts = [line.plain.rstrip() for line in Text(_shown(row[at], console.encoding)).wrap(console, width)] or [""]
    firsts = [row, *[("",) * len(row)] * (len(parts) - 1)]
    return [(*first[:at], part, *first[at + 1 :]) for first, part in zip(firsts, parts, strict=True)]


def _texts(listing: Listing, console: Console) -> list[tuple[str, ...]]:
    """Return the header and the rows in characters that the terminal can show."""
    headers = tuple(column.header for column in listing.columns)
    return [tuple(_shown(text, console.encoding) for text in row) for row in (headers, *listing.rows)]


def _shown(text: str, encoding: str) -> str:
    text = printable(text)
    return text if text.isascii() else text.encode(encoding, "backslashreplace").decode(encoding)


def _cell(column: Column, text: str, width: int, mark: str) -> Text:
    styles = dict(column.styles)
    style = styles.get(text) or styles.get("", STYLES.get(text, ""))
    if count_cells(text) > width and column.is_id:
        text = cut_id(text)
    return Text(shorten(text, width, mark), style=style)
