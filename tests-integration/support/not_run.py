"""Read which commands of the documentation no test runs, and the reasons.

A block of the file is a reason (`# ...`) followed by the commands as on the pages. Empty lines separate blocks.
"""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).parents[1] / "docs" / "not-run.txt"


def read_not_run(text: str) -> dict[str, str]:
    """Return the reasons by command; ValueError for a command without one."""
    reason_by_command: dict[str, str] = {}
    for block in text.strip().split("\n\n"):
        reason, *commands = block.splitlines()
        if not reason.startswith("# ") or not commands:
            raise ValueError(f"not a reason and the commands it holds for: {block}")
        reason_by_command |= dict.fromkeys(commands, reason.removeprefix("# "))
    return reason_by_command
