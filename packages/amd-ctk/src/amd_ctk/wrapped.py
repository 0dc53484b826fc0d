"""Wrap lines to the width of a terminal: a long line continues below its last column, and no word is broken."""

from __future__ import annotations

import re
import shutil
import textwrap

from amdgpu_discovery.command_line.standard_output import is_terminal

# Matches a line up to its last column; columns are two blanks apart.
COLUMNS = re.compile(r"(?:.*\S)?(?:  +)")
# A command to copy stays one line: the terminal breaks it, and copies it whole.
COMMAND = "fix: "


def print_wrapped(text: str) -> None:
    """Print text; on a terminal, wrap it to its width."""
    if is_terminal():
        text = wrap_lines(text, shutil.get_terminal_size().columns)
    print(text)


def wrap_lines(text: str, width: int) -> str:
    """Wrap text to lines of at most `width` characters, except commands and words that are longer."""
    return "\n".join(part for line in text.split("\n") for part in _wrap(line, width))


def _wrap(line: str, width: int) -> list[str]:
    if len(line) <= width or line.lstrip().startswith(COMMAND):
        return [line]
    columns = COLUMNS.match(line[: width // 2])
    # Indent less if the terminal would otherwise break a long path or id below the last column.
    longest = max(map(len, line.split()), default=0)
    hanging = max(0, min(columns.end() if columns else 0, width - longest))
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
        replace_whitespace=False,
    )
