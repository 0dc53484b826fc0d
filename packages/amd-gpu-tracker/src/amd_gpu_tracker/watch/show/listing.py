"""A list as a value: its columns, which of them a narrow terminal leaves out, and its text for files.

Width on a terminal is counted in cells as rich counts them: characters of East Asian scripts and emoji take two.
"""

from __future__ import annotations

from amdgpu_discovery.gpu import MEBIBYTE
from amdgpu_discovery.untrusted.plain_text import printable
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

GAP = "  "
# Fewer characters of a text are meaningless.
LEAST_CROPPED = 4
# From this width on, a terminal has room for what `--wide` adds.
WIDE_TERMINAL = 100
# Engines show this many characters of a container's id, and all their commands accept them.
ID_LENGTH = 12
WHOLE_ID_LENGTH = 64
HEXADECIMAL = "0123456789abcdef"
# A word at the end, such as a pid or the engine, is kept whole if this many cells are left for the text before it.
LEAST_BEFORE_WORD = 4
GIB = 1024 * MEBIBYTE
# Smaller amounts are shown in MiB, because 0.0 GiB would look like nothing.
LEAST_GIB = GIB // 20
# The header of limits on memory.
LIMIT = "Limit"
# Below lists that would show reservations.
DISABLED = "GPU Tracker is disabled, so reservations are not known"


class Column(Value):
    """A column of a list.

    Attributes:
        header: The text above it.
        yields: When a narrow terminal leaves it out: 1 is the first to go; 0 always stays.
        least: To how many characters its values are shortened before a column is left out; 0 for not at all.
        is_id: Whether ids of containers in it are cut as engines do if they do not fit.
        is_number: Whether values are aligned on the right.
        wraps: Whether values that do not fit continue in the next line instead of being shortened.
        is_whole: Whether a part of a value could be taken for another value, as with numbers.
        styles: Values with rich's colours for them, which repeat the meaning; "" stands for every other value.
    """

    header: str
    yields: int = 0
    least: int = 0
    is_id: bool = False
    is_number: bool = False
    wraps: bool = False
    is_whole: bool = False
    styles: tuple[tuple[str, str], ...] = ()


class Listing(Value):
    """A list: its columns, and the cells of each row, "" if the row continues the one above it.

    Attributes:
        columns: The columns from left to right.
        rows: The cells of each row, one for each column.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]


class Page(Value):
    """What a screen shows at a time.

    Attributes:
        shown: A list, or a sentence if there is none.
        notes: Sentences about what the list cannot show.
        title: The text above it; "" for the name of the screen.
    """

    shown: Listing | str
    notes: tuple[str, ...] = ()
    title: str = ""


def format_listing(listing: Listing) -> str:
    """Return a complete list, whatever its width, for files and programs."""
    texts = [tuple(map(printable, row)) for row in (tuple(column.header for column in listing.columns), *listing.rows)]
    widths = [max(map(count_cells, values)) for values in zip(*texts, strict=True)]
    rule = "-" * (sum(widths) + len(GAP) * (len(widths) - 1))
    lines = [_line(listing.columns, row, widths) for row in texts]
    return "\n".join([rule, lines[0], rule, *lines[1:]])


def format_fixed(rows: Iterable[Sequence[str]], widths: Sequence[int], *, rule: int = 0) -> list[str]:
    """Return the lines of a table as the guide's, with fixed widths; the first row is the header, below a `rule`.

    A text that is too long shifts the texts after it.
    """
    padded = (
        [pad(printable(text), width - len(GAP)) + GAP for text, width in zip(row, widths, strict=False)] for row in rows
    )
    header, *lines = ["".join(texts).rstrip() for texts in padded]
    line = "-" * (rule or sum(widths))
    return [line, header, line, *lines]


def fit_columns(columns: Sequence[Column], widths: Sequence[int], room: int) -> dict[int, int]:
    """Return the columns that fit into `room`, and their widths, by position.

    Columns are left out in the order in which they yield, until the others fit if they are shortened. Room that is left
    goes to shortened columns, first to those that do not wrap and would lose text.
    """
    fitted = {at: _narrowest(column, widths[at]) for at, column in enumerate(columns)}
    for at in sorted((at for at in fitted if columns[at].yields), key=lambda at: columns[at].yields):
        if width_of(fitted.values()) <= room:
            break
        del fitted[at]
    for wraps in (False, True):
        _widen(fitted, {at: widths[at] for at in fitted if columns[at].wraps is wraps}, room)
    return fitted


def crop_columns(columns: Sequence[Column], fitted: dict[int, int], room: int) -> dict[int, int]:
    """Return the visible part of columns that are too wide for a screen: numbers whole, or not at all."""
    seen: dict[int, int] = {}
    for at, width in fitted.items():
        left = room - width_of((*seen.values(), 0)) if seen else room
        if width <= left:
            seen[at] = width
        elif not seen or (left >= LEAST_CROPPED and not (columns[at].is_number or columns[at].is_whole)):
            seen[at] = left
            break
    return seen


def cut_id(text: str) -> str:
    """Return the first characters of a container's id, and any other text unchanged."""
    is_id = len(text) == WHOLE_ID_LENGTH and not text.strip(HEXADECIMAL)
    return text[:ID_LENGTH] if is_id else text


def width_of(widths: Collection[int]) -> int:
    """Return the width of a line of columns."""
    return sum(widths) + len(GAP) * max(0, len(widths) - 1)


def _narrowest(column: Column, width: int) -> int:
    return min(width, max(column.least, len(column.header))) if column.least else width


def _widen(fitted: dict[int, int], wanted: Mapping[int, int], room: int) -> None:
    """Give each column that wants more a character in turn, as long as there is room."""
    while (left := room - width_of(fitted.values())) > 0:
        short = [at for at, width in wanted.items() if fitted[at] < width]
        if not short:
            return
        for at in short[:left]:
            fitted[at] += 1


def _line(columns: Sequence[Column], texts: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        pad(text, width, on_left=column.is_number) for column, text, width in zip(columns, texts, widths, strict=True)
    ]
    return GAP.join(padded).rstrip()


def count_cells(text: str) -> int:
    """Return the width of a text in cells."""
    if text.isascii():
        return len(text)
    # Hardly any name needs rich.
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int, *, on_left: bool = False) -> str:
    """Return a text filled up with blanks to this width."""
    blanks = " " * (width - count_cells(text))
    return blanks + text if on_left else text + blanks


def shorten(text: str, width: int, mark: str) -> str:
    """Return text in at most `width` cells, without its middle: names differ at both ends.

    The last word, the most telling one of several, is kept whole if the beginning has room beside it.
    """
    if count_cells(text) <= width:
        return text
    room = width - len(mark)
    end = _end_of(text, room)
    return f"{text[: _count_fitting(text, room - count_cells(end))]}{mark}{end}"


def _end_of(text: str, room: int) -> str:
    word = text[text.rfind(" ") :]
    if len(word) < len(text) and room // 2 < count_cells(word) <= room - LEAST_BEFORE_WORD:
        return word
    return text[len(text) - _count_fitting(reversed(text), room // 2) :]


def _count_fitting(characters: Iterable[str], room: int) -> int:
    """Return how many of the characters fit."""
    count = 0
    for character in characters:
        room -= count_cells(character)
        if room < 0:
            break
        count += 1
    return count


def format_amount(amount: int | None) -> str:
    """Return bytes as GiB, or small amounts as MiB."""
    if amount is None:
        return "-"
    return f"{amount / GIB:.1f} GiB" if amount >= LEAST_GIB or amount == 0 else f"{-(-amount // MEBIBYTE)} MiB"


def format_limit(limit: int | None, charged: int | None) -> str:
    """Return how much of a limit is in use, "" without a limit."""
    return "" if limit is None else format_share(charged, limit)


def format_share(used: int | None, total: int | None) -> str:
    """Return how much of a memory is in use."""
    if used is None or total is None:
        return f"{format_amount(used)} of {format_amount(total)}"
    return f"{used / GIB:.1f} of {total / GIB:.1f} GiB"
