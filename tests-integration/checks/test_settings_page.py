"""The manual page of config.toml, which packages make from the documentation."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "packaging"))

from man_settings import format_settings  # noqa: E402

TABLE = """# config.toml

## Keys

| key | values; the first is the default | what it sets |
|---|---|---|
| [`idle`](#idle) | `""`; a time | When owners get a warning. |
"""


def test_a_row_of_three_columns_is_a_term_with_a_line_for_each_other_column():
    page = format_settings(TABLE, date="2026-11-28", version="1.0")

    assert '.SH KEYS\n.TP\n\\fBidle\\fR\n\\fB""\\fR; a time\n.br\nWhen owners get a warning.\n.SH SEE ALSO' in page


def test_the_page_of_the_documentation_can_be_formatted():
    page = format_settings((ROOT / "docs/reference/config.md").read_text(encoding="utf-8"), date="", version="")

    assert ".TP\n\\fBvram\\-limit\\fR\n" in page
