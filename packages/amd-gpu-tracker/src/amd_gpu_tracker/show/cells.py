"""Room on a terminal, in cells: characters of East Asian scripts and emoji take two, combining marks none."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# A word at the end, such as a pid or the engine, is kept if so many cells are left for what stands before it.
LEAST_BEFORE_WORD = 4


def count_cells(text: str) -> int:
    """Return how many cells a text takes."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def pad(text: str, width: int, *, on_left: bool = False) -> str:
    """Return a text with blanks that make it as wide as this."""
    blanks = " " * (width - count_cells(text))
    return blanks + text if on_left else text + blanks


def shorten(text: str, width: int, mark: str, measure: Callable[[str], int] = count_cells) -> str:
    """Return text in at most so many cells, without its middle: names differ at both ends.

    The last word, which says most of a text with several, is kept whole where the beginning has room beside it.
    """
    if measure(text) <= width:
        return text
    room = width - len(mark)
    end = _end_of(text, room, measure)
    return f"{text[: _count_fitting(text, room - measure(end), measure)]}{mark}{end}"


def _end_of(text: str, room: int, measure: Callable[[str], int]) -> str:
    word = text[text.rfind(" ") :]
    if len(word) < len(text) and room // 2 < measure(word) <= room - LEAST_BEFORE_WORD:
        return word
    return text[len(text) - _count_fitting(reversed(text), room // 2, measure) :]


def _count_fitting(characters: Iterable[str], room: int, measure: Callable[[str], int]) -> int:
    """Return how many of the characters fit."""
    count = 0
    for character in characters:
        room -= measure(character)
        if room < 0:
            break
        count += 1
    return count


def _cells_of(character: str) -> int:
    from unicodedata import category, east_asian_width

    if not character.isprintable():
        # A question mark stands for it.
        return 1
    if category(character) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1
