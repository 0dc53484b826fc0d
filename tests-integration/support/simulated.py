"""What programs say on every simulated host, and on no other."""

from __future__ import annotations

NOTE = "Working on the simulated host "


def without_note(text: str) -> str:
    """Return what a program printed, short of the line that says that it works on a simulated host."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(NOTE))
