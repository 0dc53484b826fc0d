"""How many cuts there are, and what they met."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

from power.work import JOBS, Progress

CUTS = int(os.environ.get("AMD_POWER_CUTS", "10"))
# After so many cuts, the machine is booted from the disk of the last one.
CUTS_FOR_A_BOOT = 10
WITHIN, AFTER = "within a command", "after a command"
SEEN: Counter[tuple[str, str]] = Counter()


def note_cut(job: str, progress: Progress) -> None:
    """Count a cut that was passed."""
    SEEN[job, WITHIN if progress.begun > progress.confirmed else AFTER] += 1


def table() -> Iterator[str]:
    """Return the lines of the table of cuts, none where there was no cut."""
    if SEEN:
        yield f"| job | cuts {WITHIN} | {AFTER} |"
        yield "|---|--:|--:|"
        yield from (f"| {job} | {SEEN[job, WITHIN]} | {SEEN[job, AFTER]} |" for job in JOBS)
        yield f"| together | {sum(SEEN[job, WITHIN] for job in JOBS)} | {sum(SEEN[job, AFTER] for job in JOBS)} |"
