"""TAB in bash: commands and options come from the script alone, values from the program."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from amd_gpu_tracker.cli import alone
from amd_gpu_tracker.plain_help import format_script

PROGRAM = Path(sys.executable).with_name("amd-gpu-tracker")


@pytest.fixture
def tab(tmp_path):
    """Return a function for what TAB offers behind a line; a program that is asked offers what it was asked for."""
    (tmp_path / "script").write_text(format_script(typer.main.get_command(alone()), "amd-gpu-tracker", "bash"))
    (tmp_path / "env").write_text(f'#!{shutil.which("bash")}\necho "asked: $1 $2 $3"\n')
    (tmp_path / "env").chmod(0o755)

    def press(line):
        last = line.count(" ")
        typed = line if line[-1] != " " else f"{line}''"
        text = (
            f"source {tmp_path}/script; COMP_WORDS=({typed}) COMP_CWORD={last}; "
            "_amd_gpu_tracker_completion amd-gpu-tracker; printf '%s\\n' \"${COMPREPLY[@]}\""
        )
        bash = [shutil.which("bash"), "--noprofile", "--norc", "-c", text]
        return subprocess.run(bash, env={"PATH": f"{tmp_path}"}, capture_output=True, text=True, check=True).stdout

    return press


def test_commands_and_options_are_offered_without_the_program(tab):
    assert tab("amd-gpu-tracker d") == "disable\ndrain\n"
    assert tab("amd-gpu-tracker drain --") == "--reason\n--until\n--for\n--wait\n--dry-run\n--help\n"
    assert tab("amd-gpu-tracker status --wide -") == (
        "--json\n--watch\n--no-trunc\n--refusals\n--usage\n--peak\n--prometheus\n--help\n-h\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        "amd-gpu-tracker ",
        "amd-gpu-tracker 0",
        "amd-gpu-tracker 0 ex",
        # What the script does not know: AMD's spelling, a word too much, what stands behind the end of options.
        "amd-gpu-tracker status -json --w",
        "amd-gpu-tracker stat --w",
        "amd-gpu-tracker status -- --w",
    ],
)
def test_the_program_is_asked_for_values_and_for_what_the_script_does_not_know(tab, line):
    asked = line.replace(" ", "\n")

    assert tab(line) == (
        f"asked: COMP_WORDS={asked} COMP_CWORD={line.count(' ')} _AMD_GPU_TRACKER_COMPLETE=complete_bash\n"
    )


def test_a_value_that_nobody_knows_is_left_to_the_shell(tab):
    assert tab("amd-gpu-tracker drain --reason f") == "\n"


def test_tab_behind_the_version_does_not_print_it(tmp_path):
    environment = {
        "COMP_WORDS": "amd-gpu-tracker --version st",
        "COMP_CWORD": "2",
        "_AMD_GPU_TRACKER_COMPLETE": "complete_bash",
        "AMD_CTK_HOST_ROOT": f"{tmp_path}",
    }

    assert subprocess.run([PROGRAM], env=environment, capture_output=True, text=True, check=True).stdout == "status\n"
