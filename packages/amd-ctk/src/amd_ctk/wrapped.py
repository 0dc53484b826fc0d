"""Lines of text on a terminal: one that is too long goes on below its last column, and no word is broken."""

from __future__ import annotations

import re
import shutil
import textwrap

from amdgpu_discovery.standard_output import is_terminal

# Up to the last column of a line: its columns are two blanks apart.
COLUMNS = re.compile(r"(?:.*\S)?(?:  +)")
# What people copy stays one line; the terminal breaks it and copies it whole.
COMMAND = "fix: "


def print_wrapped(text: str) -> None:
    """Print lines, on a terminal wrapped to its width."""
    if is_terminal():
        text = wrap_lines(text, shutil.get_terminal_size().columns)
    print(text)


def wrap_lines(text: str, width: int) -> str:
    """Return lines of at most `width` characters; longer are commands and words of that length."""
    return "\n".join(part for line in text.split("\n") for part in _wrap(line, width))


def _wrap(line: str, width: int) -> list[str]:
    if len(line) <= width or line.lstrip().startswith(COMMAND):
        return [line]
    columns = COLUMNS.match(line[: width // 2])
    # Further to the left where the terminal would break a path or an id below the last column.
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
