"""Text from untrusted sources, made safe for a terminal and a log."""

from __future__ import annotations

LONGEST_SHOWN_LINE = 500


def printable(text: str) -> str:
    """Return text with a `?` for each unprintable character: a terminal would execute control characters."""
    # Most text is printable, and a list of a thousand containers has thousands of texts.
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def printable_lines(text: str) -> str:
    """Return text of several lines, each without control characters."""
    return "\n".join(map(printable, text.split("\n")))


def one_line(text: str) -> str:
    """Return text as one printable line, cut after LONGEST_SHOWN_LINE characters."""
    plain = printable(text[: LONGEST_SHOWN_LINE + 1])
    return plain if len(plain) <= LONGEST_SHOWN_LINE else f"{plain[:LONGEST_SHOWN_LINE]}..."
