"""amd-ctk itself: help, version, wrong words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest


def test_without_a_command_help_is_shown_and_nothing_failed(host, amd_ctk):
    host()

    answer = amd_ctk()

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == amd_ctk("-h").stdout == amd_ctk("--help").stdout
    assert answer.stdout.startswith("Usage: ")
    assert "Tool to configure AMD Container Toolkit" in answer.stdout


def test_the_help_is_one_screen_that_begins_with_three_examples(host, amd_ctk):
    host()

    lines = amd_ctk("--help", COLUMNS="80").stdout.splitlines()

    assert lines[:6] == [
        "Usage: amd-ctk [OPTIONS] COMMAND [ARGS]...",
        "Tool to configure AMD Container Toolkit. Examples:",
        "  amd-ctk run --count=1 --wait -- python3 train.py",
        "  amd-ctk top",
        "  sudo amd-ctk doctor",
        "",
    ]
    assert len(lines) <= 32
    assert max(map(len, lines)) <= 80
    words = [line.split()[0] for line in lines[6:] if line.startswith("  ")]
    assert len(words) <= 22
    assert "usage" not in words


@pytest.mark.parametrize("group", ["gpu", "cdi", "runtime"])
def test_a_group_without_a_command_shows_its_help(host, amd_ctk, group):
    host()

    answer = amd_ctk(group)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout == amd_ctk(group, "-h").stdout


def test_an_unknown_command_is_named(host, amd_ctk):
    host()

    answer = amd_ctk("foo")

    assert (answer.returncode, answer.stdout) == (2, "")
    assert "No such command 'foo'" in answer.stderr


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (("run", "--gpu=1", "--", "true"), "--gpus"),
        (("run", "--gpu", "1", "true"), "--gpus"),
        (("run", "--reservtion=debug", "true"), "--reservation"),
        (("gpu", "list", "--wid"), "--wide"),
    ],
)
def test_an_unknown_option_suggests_the_nearest(host, amd_ctk, words, suggested):
    host()

    answer = amd_ctk(*words)

    assert (answer.returncode, answer.stdout) == (2, "")
    # The last is the wording of the Typer that packages carry.
    assert answer.stderr.endswith((f"(Possible options: {suggested})\n", f"Did you mean {suggested}?\n"))


def test_the_version_has_the_originals_three_lines(host, amd_ctk):
    host()

    lines = amd_ctk("version").stdout.splitlines()

    assert [line.partition(": ")[0] for line in lines] == ["Version", "Build Date", "GitCommit"]
    assert lines[0].startswith("Version: v2.")
    facts = json.loads(amd_ctk("version", "--json").stdout)
    assert lines == [f"Version: v{facts['version']}", f"Build Date: {facts['date']}", f"GitCommit: {facts['commit']}"]


def test_a_host_root_that_is_no_directory_is_named(amd_ctk):
    answer = amd_ctk("gpu", "list", AMD_CTK_HOST_ROOT="/nowhere/host")

    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == (
        "AMD_CTK_HOST_ROOT=/nowhere/host is not a directory"
        " (run 'unset AMD_CTK_HOST_ROOT'; 'env -u AMD_CTK_HOST_ROOT amd-ctk simulate build PROFILE DIR' builds one)\n"
    )


def test_advice_about_a_host_root_that_is_no_directory_can_be_typed(amd_ctk, program, tmp_path):
    environment = {"PATH": f"{os.path.dirname(program)}:{os.environ['PATH']}", "AMD_CTK_HOST_ROOT": "/nowhere/host"}
    unset, build = re.findall("'(.*?)'", amd_ctk("gpu", "list", AMD_CTK_HOST_ROOT="/nowhere/host").stderr)

    for line in (f"{unset}; amd-ctk simulate list", build.replace("PROFILE DIR", f"mi210-4 {tmp_path}/built")):
        answer = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False)
        assert (answer.returncode, answer.stderr) == (0, "")


def test_debug_shows_where_a_failure_was_found(host, amd_ctk):
    host("no-driver")

    for flag in ("--debug", "-d"):
        answer = amd_ctk(flag, "gpu", "list")
        assert answer.returncode == 1
        assert answer.stderr.startswith("Traceback (most recent call last):\n")
        assert answer.stderr.splitlines()[-1].startswith("failed to list AMD devices: amdgpu driver unavailable")


@pytest.mark.parametrize("words", ["gpu list", "--help", "--version", "--show-completion bash", "users --help"])
def test_an_answer_that_cannot_be_written_is_a_failure(host, program, words):
    root = host().root

    with open("/dev/full", "w") as full:
        answer = subprocess.run(
            [program, *words.split()],
            env={"AMD_CTK_HOST_ROOT": root, "PATH": "/usr/bin:/bin"},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert (answer.returncode, answer.stderr) == (1, "the output cannot be written: the disk is full\n")


@pytest.fixture
def in_shell(host, program, tmp_path):
    """Return a function for what the program answers on a host where a shell has closed a stream of it."""
    host()
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": f"{tmp_path}/host"}

    def run(words, script):
        command = ["sh", "-c", script, "sh", program, *words.split()]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)

    return run


@pytest.mark.parametrize(
    "words",
    [
        *("explain -e AMD_VISIBLE_DEVICES=0", "swarm status", "status", "top", "gpu list", "doctor --only=driver"),
        "simulate list",
    ],
)
def test_standard_output_may_be_closed(in_shell, words):
    answer = in_shell(words, 'exec "$@" >&-')

    assert (answer.returncode, answer.stderr.count("Traceback")) == (0, 0)


def test_a_closed_standard_error_keeps_notes_out_of_the_answer(in_shell):
    answer = in_shell("cdi generate --additional-gids --output=-", 'exec "$@" 2>&-')

    assert json.loads(answer.stdout)["cdiVersion"] == "0.7.0"


@pytest.mark.parametrize("words", ["cdi generate --output=x.json", "explain -- podman run --device=kfd image"])
def test_a_current_directory_that_was_removed_is_named_where_a_path_depends_on_it(in_shell, words):
    answer = in_shell(words, 'mkdir gone && cd gone && rmdir ../gone && exec "$@"')

    assert answer.returncode == 1
    assert answer.stderr.endswith("the current directory does not exist (change to another one)\n")


@pytest.mark.parametrize(
    ("shell", "line"),
    [
        ("bash", "complete -o default -F _amd_ctk_completion amd-ctk"),
        ("zsh", "compdef _amd_ctk_completion amd-ctk"),
        ("fish", "complete --command amd-ctk --no-files"),
    ],
)
def test_completion_can_be_shown_for_every_shell(host, amd_ctk, shell, line):
    host()

    # Typer asks the process tree which shell this is, and a test has none.
    answer = amd_ctk("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")

    assert answer.returncode == 0
    assert line in answer.stdout


@pytest.mark.parametrize(
    ("environment", "offered"),
    [
        ({"_AMD_CTK_COMPLETE": "complete_bash", "COMP_WORDS": "amd-ctk gp", "COMP_CWORD": "1"}, "gpu"),
        ({"_AMD_CTK_COMPLETE": "complete_bash", "COMP_WORDS": "amd-ctk gpu ", "COMP_CWORD": "2"}, "list"),
        ({"_AMD_CTK_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "amd-ctk gpu "}, '"list"'),
        (
            {
                "_AMD_CTK_COMPLETE": "complete_fish",
                "_TYPER_COMPLETE_ARGS": "amd-ctk gpu ",
                "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            },
            "list",
        ),
    ],
)
def test_completion_offers_commands(host, amd_ctk, environment, offered):
    host()

    assert offered in amd_ctk(**environment).stdout


@pytest.mark.parametrize(("shell", "offered"), [("zsh", '"enable":"Enable'), ("fish", "enable\tEnable")])
def test_completion_needs_no_module_that_the_packages_lack(shell, offered):
    without = "import sys; sys.modules.update(dict.fromkeys(['pygments', 'markdown_it', 'mdurl'])); "
    code = f"{without}sys.argv = ['amd-ctk']; from amd_ctk.cli import main; main()"
    asked = {"_TYPER_COMPLETE_ARGS": "amd-ctk gpu-tracker ", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}

    answer = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "/usr/bin:/bin", "_AMD_CTK_COMPLETE": f"complete_{shell}", **asked},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (offered in answer.stdout, answer.stderr) == (True, "")
