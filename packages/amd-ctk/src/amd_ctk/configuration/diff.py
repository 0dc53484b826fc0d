"""Show what an edit changes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.configuration.edit import Edited


def format_diff(edited: Edited) -> str:
    """Return the difference between a file before and after an edit, as diff(1) writes it."""
    from difflib import unified_diff

    old, new = (text.splitlines(keepends=True) if text else [] for text in (edited.old, edited.new))
    lines = unified_diff(old, new, fromfile=edited.file.shown, tofile=edited.file.shown)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
