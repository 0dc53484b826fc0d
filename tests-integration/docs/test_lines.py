"""Prose is broken into lines that an editor and a review show whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from support.documentation import PAGES, read_page

MOST = 140
WRITTEN_BY_PROGRAMS = "<!-- written by docs/generate.py"
# What programs write into a page stands between these.
BETWEEN_MARKS = re.compile(r"^<!-- begin (\S+) -->$.*?^<!-- end \1 -->$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
TABLES_AND_PICTURES = ("|", "![")
WRITTEN_BY_HAND = [page for page in PAGES if page.startswith("docs/") and WRITTEN_BY_PROGRAMS not in read_page(page)]


def prose(text: str) -> Iterator[str]:
    """Yield the lines of a page that can be broken."""
    for line in FENCE.sub("", BETWEEN_MARKS.sub("", text)).splitlines():
        is_one_piece = " " not in re.sub(r"`[^`]*`", "", line).strip()
        if not is_one_piece and not line.lstrip().startswith(TABLES_AND_PICTURES):
            yield line


@pytest.mark.parametrize("page", WRITTEN_BY_HAND)
def test_no_line_of_prose_is_longer_than_140_columns(page: str) -> None:
    assert [line for line in prose(read_page(page)) if len(line) > MOST] == []


def test_tables_fences_pictures_and_what_programs_write_may_be_longer() -> None:
    long = "word " * 40

    for text in (f"| {long} |", f"```text\n{long}\n```", f"![{long}](x.svg)", f"`{long}`"):
        assert [line for line in prose(text) if len(line) > MOST] == []
    assert list(prose(f"<!-- begin notes -->\n1. {long}\n<!-- end notes -->\nend of it")) == ["end of it"]
    assert list(prose(f"- {long}")) == [f"- {long}"]
