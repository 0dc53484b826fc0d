"""Write a table into a documentation page, between two marks with its name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def write_table(page: str, name: str, rows: Sequence[Sequence[str]]) -> None:
    """Replace the table between `<!-- begin NAME -->` and `<!-- end NAME -->`; the first row is the header.

    All columns except the first contain numbers.
    """
    head, *others = [f"| {' | '.join(row)} |" for row in rows]
    lines = [head, f"|---|{'--:|' * (len(rows[0]) - 1)}", *others]
    before, begin, rest = Path(page).read_text(encoding="utf-8").partition(f"<!-- begin {name} -->\n")
    _, end, after = rest.partition(f"<!-- end {name} -->")
    assert begin, f"{page} has no place for {name}"
    assert end, f"{page} has no end of {name}"
    Path(page).write_text(f"{before}{begin}" + "\n".join(lines) + f"\n{end}{after}", encoding="utf-8")
