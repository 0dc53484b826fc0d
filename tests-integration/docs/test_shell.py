from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.shell import Shell

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def test_both_streams_and_the_exit_code_come_back(tmp_path: Path) -> None:
    with Shell(tmp_path, ENVIRONMENT) as shell:
        assert shell.run("echo out; echo err >&2; false") == ("out\nerr\n", 1)


def test_effects_of_a_command_are_there_for_the_next(tmp_path: Path) -> None:
    with Shell(tmp_path, ENVIRONMENT) as shell:
        shell.run("mkdir below && cd below && name=value")
        shell.run("(exit 3)")

        assert shell.run("echo $? $name ${PWD##*/}") == ("3 value below\n", 0)


def test_a_command_may_span_lines_and_lack_a_newline_at_the_end(tmp_path: Path) -> None:
    with Shell(tmp_path, ENVIRONMENT) as shell:
        assert shell.run("printf '%s' \\\n  $(cat <<'END'\nwords\nEND\n)") == ("words", 0)


def test_a_command_has_no_standard_input(tmp_path: Path) -> None:
    with Shell(tmp_path, ENVIRONMENT) as shell:
        assert shell.run("cat") == ("", 0)


def test_a_shell_that_ends_early_is_an_error(tmp_path: Path) -> None:
    with Shell(tmp_path, ENVIRONMENT) as shell, pytest.raises(AssertionError, match="it printed:\nlast words"):
        shell.run("echo last words; exit 1")


def test_a_command_with_an_open_quote_is_an_error_at_once(tmp_path: Path) -> None:
    with Shell(tmp_path, ENVIRONMENT) as shell, pytest.raises(AssertionError, match="unexpected EOF"):
        shell.run("echo 'words")


def test_background_programs_end_with_the_page(tmp_path: Path) -> None:
    with Shell(tmp_path, ENVIRONMENT) as shell:
        pid = int(shell.run("sleep 1000 & echo $!")[0])

    # Whether init has reaped it already does not matter; it no longer sleeps.
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "S"
