"""A guide is read beside the terminal in which its commands are typed."""

from __future__ import annotations

import re

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


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_that_types_docker_without_sudo_says_who_can(page: str) -> None:
    text = read_page(page)

    types_docker = re.search(r"^\$ docker ", text, re.MULTILINE) is not None
    assert types_docker == (" ".join(text.split()).count("the group `docker`") == 1)


def listed_guides() -> dict[str, list[str]]:
    """Return the guides that the index of guides lists, by heading."""
    parts = read_page("docs/how-to/README.md").split("\n## ")[1:]
    return {part.partition("\n")[0]: re.findall(r"\(([\w-]+\.md)\)", part) for part in parts}


def guides_of_navigation() -> dict[str, list[str]]:
    """Return the guides by their group of the site's navigation."""
    groups: dict[str, list[str]] = {}
    for line in read_page("mkdocs.yml").partition("\nnav:\n")[2].splitlines():
        # Above the groups stands the index itself, without a name.
        name, _, page = line.strip().removeprefix("- ").rpartition(":")
        if not page.strip():
            group = groups.setdefault(name.strip('"'), [])
        elif page.strip().startswith("how-to/") and name:
            group.append(page.strip().removeprefix("how-to/"))
    return {name: pages for name, pages in groups.items() if pages}


def test_the_index_of_guides_has_the_groups_and_the_guides_of_the_navigation() -> None:
    assert listed_guides() == guides_of_navigation()
