"""docs/how-to/doctor.md lists every check, and every check names a page that exists."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from amd_ctk.doctor.run import check_names
from support.documentation import read_page

LISTED = re.findall(r"^\| `([a-z-]+)` \| [a-z]", read_page("docs/how-to/doctor.md"), re.MULTILINE)
STATES = {"ok", "bad", "note"}


def headings_of(page: str) -> set[str]:
    """Return the headings of a page as links write them."""
    titles = re.findall(r"^#+ (.+)$", read_page(f"docs/{page}"), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_check_is_listed() -> None:
    assert sorted(set(LISTED) - STATES) == sorted(check_names())


@pytest.mark.parametrize("name", check_names())
def test_a_check_names_a_place_that_exists(name: str) -> None:
    page, _, heading = import_module(f"amd_ctk.doctor.checks.{name.replace('-', '_')}").PLACE.partition("#")

    assert not heading or heading in headings_of(page)
    assert read_page(f"docs/{page}")
