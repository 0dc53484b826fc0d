"""The program amd-gpu-sharing: the commands of amd-ctk under its own name."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version

import pytest

from amdgpu_simulator import build_host

PROGRAM = os.path.join(os.path.dirname(sys.executable), "amd-gpu-sharing")


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the program on four MI210."""
    host = build_host(tmp_path / "host", "mi210-4", bare=True)

    def run(*words):
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AMD_CTK_HOST_ROOT": host.root}
        answer = subprocess.run([PROGRAM, *words], env=environment, capture_output=True, text=True, check=False)
        return answer.returncode, answer.stdout, answer.stderr

    return run


def test_help_lists_the_commands(run):
    code, printed, errors = run("--help")

    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in printed.partition("Commands:\n")[2].splitlines()] == [
        *("reserve", "keep", "end", "release", "users", "queue", "report"),
    ]


def test_the_queue_is_listed(run):
    assert run("queue", "list") == (0, "No job waits for GPUs\n", "")


def test_examples_have_the_name_of_the_program(run):
    assert "  amd-gpu-sharing queue list\n" in run("queue", "list", "--help")[1]


def test_a_failure_is_one_sentence(run):
    code, _, errors = run("keep", "../x", "1h")

    names = "use up to 64 letters, digits, '_', '.' and '-', and begin with a letter, a digit or '_'"
    assert (code, errors.splitlines()[1:]) == (2, [f"'../x' is not a name for a job ({names})"])


def test_the_version_is_that_of_the_distribution(run):
    assert run("--version") == (0, f"amd-gpu-sharing version {version('amd-gpu-sharing')}\n", "")
