"""A table in a page of the documentation, between two marks that name it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def write_table(page: str, name: str, rows: Sequence[Sequence[str]]) -> None:
    """Put a table in place of the one between `<!-- begin NAME -->` and `<!-- end NAME -->`; the first row is its head.

    Columns but the first are of figures.
    """
    head, *others = [f"| {' | '.join(row)} |" for row in rows]
    lines = [head, f"|---|{'--:|' * (len(rows[0]) - 1)}", *others]
    before, begin, rest = Path(page).read_text(encoding="utf-8").partition(f"<!-- begin {name} -->\n")
    _, end, after = rest.partition(f"<!-- end {name} -->")
    assert begin, f"{page} has no place for {name}"
    assert end, f"{page} has no end of {name}"
    Path(page).write_text(f"{before}{begin}" + "\n".join(lines) + f"\n{end}{after}", encoding="utf-8")
