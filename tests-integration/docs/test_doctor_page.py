"""Every check names a page that exists, and where that lists messages or symptoms, its section names the check."""

from __future__ import annotations

import re

import pytest

from amd_ctk.doctor.run import CHECKS, check_names
from support.documentation import headings_of, read_page

TROUBLES = ("how-to/troubleshoot.md", "reference/messages.md")


@pytest.mark.parametrize("name", check_names())
def test_a_check_names_a_place_that_exists(name: str) -> None:
    page, _, heading = CHECKS[name].see.partition("#")

    assert not heading or heading in headings_of(read_page(f"docs/{page}"))
    assert read_page(f"docs/{page}")


def sections_of(page: str) -> dict[str, str]:
    """Return the text of each section by its heading as links write it."""
    parts = re.split(r"^## (.+)$", read_page(f"docs/{page}"), flags=re.MULTILINE)[1:]
    return {
        title.lower().replace(",", "").replace(" ", "-"): text for title, text in zip(*[iter(parts)] * 2, strict=True)
    }


@pytest.mark.parametrize("page", TROUBLES)
def test_a_section_of_troubles_names_the_checks_that_lead_there(page: str) -> None:
    sections = sections_of(page)
    places = {name: CHECKS[name].see.partition("#") for name in check_names()}
    wanted = {(heading, name) for name, (where, _, heading) in places.items() if where == page}
    named = {(heading, name) for heading, text in sections.items() for name in check_names() if f"`{name}`" in text}

    assert wanted
    assert wanted <= named
