"""Every command that the documentation shows is run, and prints what the page says."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from amdgpu_discovery.simulate import build_host
from support.not_run import FILE, read_not_run
from support.shell import Shell
from support.transcripts import Section, fence_languages, is_match, parse_page

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for pattern in ("*.md", "packages/*/README.md", "docs/**/*.md")
    for path in CHECKOUT.glob(pattern)
)
NOT_RUN = read_not_run(FILE.read_text(encoding="utf-8"))

# The programs of the environment that runs the tests come first, as an activated venv has them.
PATH = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sections(*, with_docker: bool) -> list[object]:
    return [
        pytest.param(section, id=f"{page}:{section.line}")
        for page in PAGES
        for section in parse_page((CHECKOUT / page).read_text(encoding="utf-8"))
        if section.needs_docker == with_docker and any(step.command not in NOT_RUN for step in section.steps)
    ]


@pytest.mark.parametrize("section", sections(with_docker=False))
def test_commands_print_what_the_page_shows(section: Section, tmp_path: Path) -> None:
    run(section, tmp_path, {})


def run(section: Section, directory: Path, environment: dict[str, str]) -> None:
    assert section.profile, "a page names its host with <!-- commands run on: PROFILE -->"
    host = build_host(directory / "machine", section.profile)
    home = directory / "home"
    if section.in_clone:
        shutil.copytree(CHECKOUT, home, ignore=shutil.ignore_patterns(".*", "__pycache__", "site", "dist"))
    else:
        home.mkdir()
    surroundings = {"PATH": PATH, "HOME": str(home), "LANG": "C.UTF-8", "AMD_CTK_HOST_ROOT": host.root, **environment}
    with Shell(home, surroundings) as shell:
        # The reader's machine asks for a password; the simulated host belongs to whoever runs the tests.
        shell.run('sudo() { "$@"; }')
        for step in section.steps:
            if step.command in NOT_RUN:
                continue
            printed, exit_code = shell.run(step.command)

            where = f"line {step.line}: $ {step.command}\n"
            assert is_match(step.expected, printed), f"{where}printed:\n{printed}but the page shows:\n{step.expected}"
            assert exit_code == step.exit_code, f"{where}ended with {exit_code}, printed:\n{printed}"


def test_every_command_that_is_not_run_is_shown() -> None:
    shown = {
        step.command
        for page in PAGES
        for section in parse_page((CHECKOUT / page).read_text(encoding="utf-8"))
        for step in section.steps
    }

    assert sorted(set(NOT_RUN) - shown) == []


@pytest.mark.parametrize("page", PAGES)
def test_commands_are_shown_where_this_test_finds_them(page: str) -> None:
    languages = fence_languages((CHECKOUT / page).read_text(encoding="utf-8"))

    assert [fence for fence in languages if fence[1] in ("", "bash", "sh", "shell")] == []
