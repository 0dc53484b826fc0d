"""Room on a terminal, in cells as rich counts them: characters of East Asian scripts and emoji take two."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# A word at the end, such as a pid or the engine, is kept if so many cells are left for what stands before it.
LEAST_BEFORE_WORD = 4


def count_cells(text: str) -> int:
    """Return how many cells a text takes."""
    if text.isascii():
        return len(text)
    # Hardly any name needs it.
    from rich.cells import cell_len

    return cell_len(text)


def pad(text: str, width: int, *, on_left: bool = False) -> str:
    """Return a text with blanks that make it as wide as this."""
    blanks = " " * (width - count_cells(text))
    return blanks + text if on_left else text + blanks


def shorten(text: str, width: int, mark: str) -> str:
    """Return text in at most so many cells, without its middle: names differ at both ends.

    The last word, which says most of a text with several, is kept whole where the beginning has room beside it.
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
