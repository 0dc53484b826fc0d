"""Every command that the documentation shows is run, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.documentation import NOT_RUN, PAGES, prepare, read_page, run, sections
from support.transcripts import fence_languages, parse_page

SECTIONS = sections(with_docker=False)


@pytest.mark.parametrize("place", SECTIONS)
def test_commands_print_what_the_page_shows(place: str, tmp_path: Path) -> None:
    run(SECTIONS[place], prepare(SECTIONS[place], tmp_path), {})


def test_every_command_that_is_not_run_is_shown() -> None:
    shown = {step.command for page in PAGES for section in parse_page(read_page(page)) for step in section.steps}

    assert sorted(set(NOT_RUN) - shown) == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_shown_where_this_test_finds_them(page: str) -> None:
    unchecked = [fence for fence in fence_languages(read_page(page)) if fence[1] in ("", "bash", "sh", "shell")]

    assert unchecked == []


@pytest.mark.parametrize("page", PAGES)
def test_images_that_podman_may_start_have_their_full_names(page: str) -> None:
    """Podman looks for a short name nowhere on Debian, and asks which registry is meant elsewhere."""
    lines = [line for line in read_page(page).splitlines() if re.search(r"^ *image: rocm|^Image=|podman run .", line)]
    # Docker's own files are read by nothing else.
    of_docker = "compose" in page or "swarm" in page

    assert [line for line in lines if re.search(r"[ =]rocm/", line) and not of_docker] == []
