"""Every page in docs/decisions says since when it holds, and whether it still does."""

from __future__ import annotations

import re

import pytest

from support.documentation import PAGES, read_page

DIRECTORY = "docs/decisions/"
DECISIONS = [page.removeprefix(DIRECTORY) for page in PAGES if re.match(rf"{DIRECTORY}\d", page)]
STATUS = r"(?:accepted|superseded by \[(\d+)\]\((.+?)\))"
BEGINNING = re.compile(rf"# (\d+)\. .+\n\nDate: \d{{4}}-\d\d-\d\d\. Status: {STATUS}\.")


def beginning(name: str) -> tuple[str, str | None, str | None]:
    found = BEGINNING.match(read_page(DIRECTORY + name))
    assert found, f"{name} needs a title, an empty line, and 'Date: 2026-11-21. Status: accepted.'"
    number, successor, page = found.groups()
    return number, successor, page


@pytest.mark.parametrize("name", DECISIONS)
def test_a_decision_has_its_number_a_date_and_a_status(name: str) -> None:
    number, _, _ = beginning(name)

    assert name.startswith(f"{int(number):04}-")


@pytest.mark.parametrize("name", DECISIONS)
def test_a_superseding_decision_says_so_itself(name: str) -> None:
    number, successor, page = beginning(name)

    if successor is not None and page is not None:
        assert page.startswith(f"{int(successor):04}-")
        assert f"[{number}]({name})" in read_page(DIRECTORY + page)
