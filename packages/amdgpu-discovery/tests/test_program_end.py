"""A command's output is written and its exit code told, without the rest of what Python does at its end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BEGIN = "import atexit, sys; from amdgpu_discovery.command_line.standard_output import run_and_leave\n"


def run_python(code, **streams):
    """Run a program that ends as commands do."""
    return subprocess.run(
        [sys.executable, "-I", "-c", BEGIN + code],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        text=True,
        check=False,
        timeout=60,
    )


def ended(code, **streams):
    """Return the exit code and both streams of such a program."""
    answer = run_python(code, **streams)
    return answer.returncode, answer.stdout, answer.stderr


def test_printed_text_is_written_and_the_exit_code_is_kept():
    code = "def run():\n print('x' * 100_000); print('refused', file=sys.stderr); sys.exit(3)\nrun_and_leave(run)"

    assert ended(code) == (3, "x" * 100_000 + "\n", "refused\n")


def test_nothing_else_is_done_at_the_end():
    code = "atexit.register(print, 'put away')\nrun_and_leave(lambda: sys.exit(0))"

    assert ended(code) == (0, "", "")


def test_a_command_that_returns_lets_its_caller_go_on():
    assert ended("run_and_leave(lambda: print('done'))\nprint('more')") == (0, "done\nmore\n", "")


def test_a_sentence_instead_of_an_exit_code_is_printed():
    assert ended("run_and_leave(lambda: sys.exit('no GPU'))") == (1, "", "no GPU\n")


def test_an_error_leaves_its_trace():
    code, _, trace = ended("run_and_leave(lambda: 1 / 0)")

    assert (code, trace.splitlines()[-1]) == (1, "ZeroDivisionError: division by zero")


@pytest.mark.parametrize("printed", ["'lost'", "'lost', flush=True", "'lost' * 100_000"])
@pytest.mark.parametrize("code", [0, 3])
def test_output_without_a_reader_ends_the_program_quietly(printed, code):
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w", encoding="utf-8") as pipe:
        answer = ended(f"def run():\n print({printed}); sys.exit({code})\nrun_and_leave(run)", stdout=pipe)

    assert answer == (1, None, "")


@pytest.mark.parametrize("printed", ["'lost'", "'lost', flush=True", "'lost' * 100_000"])
def test_a_full_disk_behind_the_output_is_named(printed):
    code = f"def run():\n print({printed}); sys.exit(0)\nrun_and_leave(run)"
    with open("/dev/full", "w", encoding="utf-8") as full:
        answer = ended(code, stdout=full)

        assert answer == (1, None, "the output cannot be written: the disk is full\n")
        assert run_python(code, stdout=full, stderr=full).returncode == 1


def test_a_file_that_is_missing_is_a_bug_and_leaves_its_trace():
    code, _, trace = ended("run_and_leave(lambda: open('/nowhere/x'))")

    assert (code, trace.splitlines()[-1].partition(":")[0]) == (1, "FileNotFoundError")


@pytest.mark.parametrize("closed", ["stdout", "stderr"])
def test_a_closed_stream_is_no_error(closed):
    code = f"sys.{closed} = None\nrun_and_leave(lambda: sys.exit(4))"

    assert ended(code) == (4, "", "")
