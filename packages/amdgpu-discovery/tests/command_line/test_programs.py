"""What running another program can cost; the programs are of every system."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from amdgpu_discovery.command_line.programs import Answer, ask


def has_ended(pid: int) -> bool:
    """Return whether a process is gone, or waits only for a parent that asks how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_both_outputs_and_the_exit_code_are_returned():
    answer = ask(["sh", "-c", "echo out; echo err >&2; exit 3"], seconds=60)

    assert answer == Answer(output="out\n", errors="err\n", exit_code=3)
    assert not answer.succeeded


@pytest.mark.parametrize("stream", ["1", "2"])
def test_no_more_is_read_than_an_answer_may_have(stream):
    answer = ask(["sh", "-c", f"head -c 50000000 /dev/zero >&{stream}"], seconds=60)

    assert answer.problem == "sh printed more than 4 MiB"
    assert (answer.output, answer.errors, answer.is_late) == ("", "", False)


@pytest.mark.parametrize(("ending", "seconds", "is_late"), [("wait", 2, True), ("exec yes", 60, False)])
def test_processes_that_a_program_started_end_with_it(tmp_path, ending, seconds, is_late):
    answer = ask(["sh", "-c", f"sleep 600 & echo $! >{tmp_path}/pid; {ending}"], seconds=seconds)

    assert answer.is_late == is_late
    pid = int((tmp_path / "pid").read_text())
    while not has_ended(pid):
        time.sleep(0.01)


def test_a_program_has_a_session_of_its_own_so_that_it_cannot_type_into_the_callers_terminal():
    answer = ask(["sh", "-c", "cut -d' ' -f6 /proc/$$/stat; echo $$"], seconds=60)

    session, pid = answer.output.split()
    assert session == pid != str(os.getsid(0))
