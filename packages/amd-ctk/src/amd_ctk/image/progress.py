"""Say on a terminal how far a long work is; nothing where standard error is a file."""

from __future__ import annotations

import sys

GIBIBYTE = 2**30


class Progress:
    """One line that is written over; also counts names, and what is kept of them, over all layers of an image."""

    def __init__(self, *, is_quiet: bool = False) -> None:
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self.layer = ""
        self.names = 0
        self.kept = 0

    def show(self, names: int, size: int) -> None:
        """Show how many names of the current layer were read, and how many bytes its files have."""
        if self._is_shown:
            text = f"reading {self.layer}: {names} names, {size / GIBIBYTE:.1f} GiB"
            print(f"\r{text[:78]:<78}", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        """Take the line away."""
        if self._is_shown:
            print(f"\r{'':<78}\r", end="", file=sys.stderr, flush=True)
