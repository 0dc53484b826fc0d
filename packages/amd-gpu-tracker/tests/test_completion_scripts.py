"""TAB in bash: commands and options come from the script alone, values from the program."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from amd_gpu_tracker.cli import make_app
from amdgpu_discovery.command_line.completion_scripts import answer_completion, format_script

PROGRAM = Path(sys.executable).with_name("amd-gpu-tracker")


@pytest.fixture
def tab(tmp_path):
    """Return a function for what TAB offers behind a line; a program that is asked offers what it was asked for."""
    (tmp_path / "script").write_text(format_script(typer.main.get_command(make_app()), "amd-gpu-tracker", "bash"))
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
    assert tab("amd-gpu-tracker status --wide -") == "--json\n--watch\n--no-trunc\n--help\n-h\n"


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


@pytest.fixture
def amd_gpu_tracker(tmp_path):
    """Return a function that runs the program in an empty home directory."""

    def run(*words, command=(), **options):
        environment = {"PATH": os.environ["PATH"], "HOME": f"{tmp_path}"}
        words = [*command, PROGRAM, *words]
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, **options)

    return run


@pytest.mark.parametrize(
    ("shell", "script", "start_file", "line"),
    [
        (
            "bash",
            ".bash_completions/amd-gpu-tracker.sh",
            ".bashrc",
            "source '{home}/.bash_completions/amd-gpu-tracker.sh'",
        ),
        ("zsh", ".zfunc/_amd-gpu-tracker", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    ],
)
def test_an_installed_script_is_found_by_its_shell_and_named_once(
    tmp_path, amd_gpu_tracker, shell, script, start_file, line
):
    (tmp_path / start_file).write_text("alias ll='ls -l'")

    answers = [amd_gpu_tracker("--install-completion", shell) for _ in range(2)]

    said = f"{shell} completion installed in {tmp_path}/{script}\n"
    said += "Completion will take effect once you restart the terminal\n"
    assert [(answer.returncode, answer.stdout, answer.stderr) for answer in answers] == [(0, said, "")] * 2
    assert (tmp_path / script).read_text() == amd_gpu_tracker("--show-completion", shell).stdout
    assert (tmp_path / start_file).read_text() == f"alias ll='ls -l'\n{line.format(home=tmp_path)}\n"


def test_fish_finds_its_script_by_the_name(tmp_path, amd_gpu_tracker):
    assert amd_gpu_tracker("--install-completion", "fish").returncode == 0

    script = format_script(typer.main.get_command(make_app()), "amd-gpu-tracker", "fish")
    assert (tmp_path / ".config/fish/completions/amd-gpu-tracker.fish").read_text() == script


def test_the_shell_that_started_the_program_is_meant_where_none_is_named(tmp_path, amd_gpu_tracker):
    # With one command, bash becomes the program.
    answer = amd_gpu_tracker("--install-completion", command=["bash", "-c", '"$0" "$1"; true'])

    assert answer.returncode == 0
    assert (tmp_path / ".bash_completions/amd-gpu-tracker.sh").exists()


@pytest.mark.parametrize("between", ["", "env", "timeout 60"])
def test_the_shell_is_found_above_sudo_and_the_like(amd_gpu_tracker, between):
    answer = amd_gpu_tracker("--show-completion", command=["bash", "-c", f'{between} "$0" "$1"; true'])

    assert answer.stdout == amd_gpu_tracker("--show-completion", "bash").stdout


def test_other_options_may_stand_before_that_for_completion(capsys):
    command = typer.main.get_command(make_app())

    with pytest.raises(typer.Exit):
        answer_completion(command, "amd-gpu-tracker", ["--other", "its value", "--show-completion", "fish"])

    assert capsys.readouterr().out == format_script(command, "amd-gpu-tracker", "fish")


def test_where_no_process_is_above_typer_says_that_the_shell_is_not_known(monkeypatch):
    monkeypatch.setattr(os, "getppid", lambda: 0)

    # It answers what this leaves.
    answer_completion(typer.main.get_command(make_app()), "amd-gpu-tracker", ["--show-completion"])


def test_for_a_shell_without_a_script_none_of_another_is_installed(tmp_path, amd_gpu_tracker):
    answer = amd_gpu_tracker("--install-completion", "elvish", command=["bash", "-c", '"$0" "$@"; exit $?'])

    assert (answer.returncode, answer.stdout, os.listdir(tmp_path)) == (2, "", [])
    assert "Invalid value for --install-completion: 'elvish' is not one of bash, zsh, fish.\n" in answer.stderr


def test_a_home_directory_that_cannot_be_written_is_named(tmp_path, amd_gpu_tracker):
    (tmp_path / ".config").write_text("a file")

    answer = amd_gpu_tracker("--install-completion", "fish")

    told = f"{tmp_path}/.config/fish/completions cannot be written: a part of its path is not a directory"
    assert (answer.returncode, answer.stdout, answer.stderr) == (1, "", f"amd-gpu-tracker: {told}\n")


def test_a_user_without_a_home_directory_is_refused(monkeypatch, capsys):
    def nobody(_uid):
        raise KeyError

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)

    with pytest.raises(typer.Exit) as end:
        answer_completion(typer.main.get_command(make_app()), "amd-gpu-tracker", ["--install-completion", "bash"])

    assert end.value.exit_code == 1
    assert capsys.readouterr().err == "amd-gpu-tracker: there is no home directory to install it in (set HOME)\n"


def test_an_option_of_a_command_that_is_run_is_no_request(amd_gpu_tracker):
    assert amd_gpu_tracker("status", "--show-completion").returncode == 2
