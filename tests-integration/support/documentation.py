"""Read the pages of the documentation, and run their commands like a reader."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host
from support.not_run import FILE, read_not_run
from support.shell import Shell
from support.transcripts import Section, is_match, parse_page

CHECKOUT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(CHECKOUT).as_posix()
    for pattern in ("*.md", "packages/*/README.md", "docs/**/*.md")
    for path in CHECKOUT.glob(pattern)
)
NOT_RUN = read_not_run(FILE.read_text(encoding="utf-8"))
# On a page, this restarts the Docker of the simulated host, not that of the machine that runs the tests.
RESTART_DOCKER = "sudo systemctl restart docker"

# The programs of the tests' environment come first, as in an activated venv.
PATH = f"{Path(sys.executable).parent}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def read_page(page: str) -> str:
    return (CHECKOUT / page).read_text(encoding="utf-8")


def headings_of(text: str) -> set[str]:
    """Return the headings of a page in the form that links use."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", title.lower()).replace(" ", "-") for title in titles}


def sections(*, with_docker: bool) -> dict[str, Section]:
    """Return the sections with commands to run, by page and line."""
    return {
        f"{page}:{section.line}": section
        for page in PAGES
        for section in parse_page(read_page(page))
        if section.needs_docker == with_docker and any(step.command not in NOT_RUN for step in section.steps)
    }


def prepare(section: Section, directory: Path) -> Host:
    """Build the section's host and its reader's home, `directory`/home."""
    assert section.profile, "a page names its host with <!-- commands run on: PROFILE -->"
    if section.in_clone:
        hidden = shutil.ignore_patterns(".*", "__pycache__", "site", "dist", "build.json")
        shutil.copytree(CHECKOUT, directory / "home", ignore=hidden)
    else:
        (directory / "home").mkdir()
    return build_host(directory / "machine", section.profile)


def run(
    section: Section, host: Host, environment: dict[str, str], restart_docker: Callable[[], None] | None = None
) -> None:
    """Run the commands of a prepared section; AssertionError if the output or the exit code differs from the page."""
    home = Path(host.root).parent / "home"
    # The terminal of the tests, such as its width, must not affect the output of programs.
    surroundings = {"PATH": PATH, "HOME": os.fspath(home), "LANG": "C.UTF-8", "AMD_CTK_HOST_ROOT": host.root}
    # Short, because pages make sockets in it, whose paths are limited to 107 characters.
    with (
        TemporaryDirectory(prefix="amd-docs-", ignore_cleanup_errors=True) as temporary,
        Shell(home, {**surroundings, "TMPDIR": temporary, **environment}) as shell,
    ):
        # The reader's machine asks for a password; the simulated host belongs to the user who runs the tests.
        shell.run('sudo() { "$@"; }')
        for step in section.steps:
            if step.command == RESTART_DOCKER and restart_docker:
                restart_docker()
            elif step.command not in NOT_RUN:
                printed, exit_code = shell.run(step.command)

                where = f"line {step.line}: $ {step.command}\n"
                assert is_match(step.expected, printed), f"{where}{printed}--- but the page shows:\n{step.expected}"
                assert exit_code == step.exit_code, f"{where}{printed}--- ended with {exit_code}"
