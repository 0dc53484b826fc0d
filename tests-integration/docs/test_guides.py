"""A guide is read beside the terminal in which its commands are typed."""

from __future__ import annotations

import pytest

from support.documentation import PAGES, read_page

GUIDES = [page for page in PAGES if page.startswith("docs/how-to/")]


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_has_at_most_three_screens(page: str) -> None:
    assert len(read_page(page).splitlines()) <= 130


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_says_what_the_reader_gets_before_its_first_section(page: str) -> None:
    title, _, rest = read_page(page).partition("\n\n")

    assert title.startswith("# ")
    assert not rest.startswith(("#", "<!--", "```", "!["))
