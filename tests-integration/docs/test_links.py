"""Links of the pages outside of docs/, which the site builder does not see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.documentation import CHECKOUT, PAGES, headings_of, read_page

LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
OUTSIDE = [page for page in PAGES if not page.startswith("docs/")]


def relative_links(page: str) -> list[str]:
    return [link["target"] for link in LINK.finditer(read_page(page)) if "://" not in link["target"]]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_the_checkout_lead_somewhere(page: str) -> None:
    lost = [link for link in relative_links(page) if not (CHECKOUT / link.partition("#")[0]).exists()]

    assert (relative_links(page) != [], lost) == (True, [])


def test_sections_that_the_readme_leads_to_exist() -> None:
    places = [link.partition("#") for link in relative_links("README.md") if "#" in link and link.partition("#")[0]]
    lost = [f"{page}#{heading}" for page, _, heading in places if heading not in headings_of(read_page(page))]

    assert (places != [], lost) == (True, [])


@pytest.mark.parametrize("page", [page for page in OUTSIDE if page.startswith("packages/")])
def test_pages_of_a_package_index_have_no_link_into_the_checkout(page: str) -> None:
    assert relative_links(page) == []


def test_the_two_commands_of_the_readme_exist() -> None:
    commands = re.findall(r"^    \./(\w+)", read_page("README.md"), re.MULTILINE)

    assert [(command, Path(CHECKOUT / command).is_file()) for command in commands] == [("demo", True), ("check", True)]
