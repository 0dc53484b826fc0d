"""What needs no Typer prints the same as with it."""

from __future__ import annotations

import os
import pty
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_ctk.cli.front import PRINTER_BY_COMMAND, parse_run
from amd_ctk.cli.tree import Commands
from amd_ctk.cli.words import respell
from amdgpu_simulator import build_host
from support.ready_interpreter import ReadyInterpreter

COMMAND_LINES = [*map(" ".join, PRINTER_BY_COMMAND), "--version"]
DIRECTLY = os.path.join(os.path.dirname(sys.executable), "amd-ctk")
TYPER = """\
from amd_ctk.cli.root import app
from amdgpu_discovery.command_line.standard_output import run_and_leave
run_and_leave(lambda: app(prog_name='amd-ctk'))
"""
CLOSED = 'exec >&-; exec "$@"'
FULL = 'exec >/dev/full; exec "$@"'


@pytest.fixture(scope="module")
def through_typer(tmp_path_factory):
    """Return a program that is amd-ctk through Typer, whatever the command line."""
    program = tmp_path_factory.mktemp("typer") / "amd-ctk"
    program.write_text(f"#!{sys.executable}\n{TYPER}", encoding="utf-8")
    program.chmod(0o755)
    return str(program)


@pytest.fixture(scope="module")
def ready_typer(through_typer):
    """Return an interpreter that runs it."""
    with ReadyInterpreter(through_typer, {"PATH": os.environ["PATH"]}) as interpreter:
        yield interpreter


@pytest.fixture
def both(tmp_path, ready, ready_typer):
    """Return a function that runs a command line in both ways."""

    def run(words, **environment):
        known = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": str(tmp_path / "host"), **environment}
        answers = [each.run(shlex.split(words), known) for each in (ready, ready_typer)]
        return [(answer.returncode, answer.stdout, answer.stderr) for answer in answers]

    return run


@pytest.mark.parametrize("words", COMMAND_LINES)
@pytest.mark.parametrize("profile", ["mi210-4", "no-driver"])
def test_both_print_the_same_of_a_host(tmp_path, both, words, profile):
    build_host(tmp_path / "host", profile, bare=True)

    directly, through_typer = both(words)

    assert directly == through_typer
    assert directly[1] or directly[0]


@pytest.mark.parametrize("words", COMMAND_LINES)
@pytest.mark.parametrize("policy", ["enabled", "broken"])
def test_both_print_the_same_of_a_tracker(tmp_path, both, amd_ctk, words, policy):
    build_host(tmp_path / "host", "mi210-4", bare=True)
    assert amd_ctk("gpu-tracker", "enable").returncode == 0
    if policy == "broken":
        (tmp_path / "host/var/lib/amd-container-toolkit/gpu-tracker.json").write_text("{")

    directly, through_typer = both(words)

    assert directly == through_typer


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_both_refuse_a_directory_that_is_no_host(tmp_path, both, words):
    directly, through_typer = both(words, AMD_CTK_HOST_ROOT=str(tmp_path / "nowhere"))

    assert directly == through_typer
    assert directly[0] == (0 if words == "--version" else 1)


@pytest.mark.parametrize("words", COMMAND_LINES)
@pytest.mark.parametrize("script", [CLOSED, FULL], ids=["closed", "full"])
def test_both_end_in_the_same_way_where_nobody_takes_the_output(tmp_path, through_typer, words, script):
    build_host(tmp_path / "host", "mi210-4", bare=True)
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": str(tmp_path / "host")}

    directly, typed = (
        subprocess.run(
            ["bash", "-c", script, "bash", program, *words.split()], env=environment, capture_output=True, check=False
        )
        for program in (DIRECTLY, through_typer)
    )

    assert directly.returncode == typed.returncode
    assert directly.stdout == b""


# `top` goes on until a key is typed there; tests of the tracker type them.
@pytest.mark.parametrize("words", [words for words in COMMAND_LINES if not words.endswith(("version", "top"))])
def test_a_command_without_typer_draws_the_same_on_a_terminal(tmp_path, through_typer, words):
    build_host(tmp_path / "host", "mi210-4", bare=True)

    assert seen_on_a_terminal(tmp_path, [DIRECTLY, *words.split()]) == seen_on_a_terminal(
        tmp_path, [through_typer, *words.split()]
    )


@pytest.mark.parametrize("words", COMMAND_LINES)
def test_no_typer_is_imported(tmp_path, both, words):
    build_host(tmp_path / "host", "mi210-4", bare=True)

    directly, through_typer = both(words, PYTHONPROFILEIMPORTTIME="1")

    assert " typer\n" in through_typer[2]
    assert " typer\n" not in directly[2]


RUN = [
    "run true",
    "run -- true",
    "run --gpus=0 --name job -- sh -c 'echo $AMD_VISIBLE_DEVICES'",
    "run --gpus 0,2 --name=job printenv AMD_VISIBLE_DEVICES",
    "run --gpus 9 -- true",
    "run --gpus nonsense:4 -- true",
    "run --gpus --wait -- true",
    "run --name '' -- true",
    "run --name no/name -- true",
    "run --wait=soon -- true",
    "run --wait 10s true",
    "run --wait -- true",
    "run --wait --gpus=none -- printenv AMD_VISIBLE_DEVICES",
    "run -- no-such-program",
    "run /etc/passwd",
    "run --unit=1 -- true",
    "run --gpus",
    "run --count 2 -- printenv AMD_VISIBLE_DEVICES",
    "run --count=0 -- true",
    "run --count=two -- true",
    "run --count=9 -- true",
    "run --count=1 --gpus=1 -- true",
    "run --",
    "run",
    "run --help",
    "run -gpus=0 -- printenv AMD_VISIBLE_DEVICES",
    "run -- printenv --help",
    "run help",
    "'gpu list'",
    "run --nonsense -- true",
    "run false",
]


@pytest.mark.parametrize("words", RUN)
def test_both_run_a_job_in_the_same_way(tmp_path, both, amd_ctk, words):
    build_host(tmp_path / "host", "mi210-4", bare=True)
    assert amd_ctk("gpu-tracker", "enable").returncode == 0

    directly, through_typer = both(words)

    assert directly == through_typer


SPELLINGS = [
    "--gpus",
    "--gpus=1",
    "--count=2",
    "--count=x",
    "--name=a",
    "--wait",
    "--wait=",
    "--unit",
    "--preempt=now",
    "--each=x",
    "--",
    "-x",
    "0",
    "sh",
]


@given(st.lists(st.sampled_from(SPELLINGS)))
def test_words_read_without_typer_mean_the_same_as_with_typer(words):
    parsed = parse_run(words)
    if parsed is None:
        return

    command = Commands()["run"]
    context = command.make_context("run", respell(command, words))

    defaults = {"gpus": None, "count": None, "wait": None, "name": "", "unit": False, "reservation": "", "vram": ""}
    defaults |= {"each": "", "output": "", "at_once": None, "from_line": None, "preempt": None, "detach": False}
    read = {**context.params, "command": list(context.params["command"])}
    assert read == {**defaults, **parsed[0], "command": parsed[1]}


def seen_on_a_terminal(directory, words):
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": str(directory / "host"), "TERM": "xterm"}
    controller, terminal = pty.openpty()
    with subprocess.Popen(words, env=environment, stdin=terminal, stdout=terminal, stderr=terminal):
        os.close(terminal)
        seen = b""
        try:
            while part := os.read(controller, 65536):
                seen += part
        except OSError:
            os.close(controller)
    return seen
