"""What is said on the standard error of another process is what that process could say itself."""

from __future__ import annotations

import os
import subprocess

import pytest

from amd_gpu_tracker.broker.jobs.child import say_to
from amd_gpu_tracker.life.processes import Processes

SLEEP = ("sleep", "600")


@pytest.fixture
def started():
    """Return a function that starts a process with some standard error, and returns which process it is."""
    running = []

    def start(stderr):
        running.append(subprocess.Popen(SLEEP, stderr=stderr))
        return Processes().find(running[-1].pid)

    yield start
    for each in running:
        each.kill()
        each.wait()


def test_a_sentence_is_a_line_in_the_log_of_a_job(tmp_path, started):
    with open(tmp_path / "log", "ab") as log:
        process = started(log)

    assert say_to(process, os.getuid(), "one\nline", Processes())

    assert (tmp_path / "log").read_text() == "one?line\n"


def test_a_file_that_a_job_has_open_for_reading_only_is_not_written(tmp_path, started):
    (tmp_path / "secret").write_text("kept\n")
    with open(tmp_path / "secret", "rb") as secret:
        process = started(secret)

    assert not say_to(process, os.getuid(), "one", Processes())

    assert (tmp_path / "secret").read_text() == "kept\n"


def test_a_pipe_that_is_full_is_not_waited_for(started):
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        while True:
            os.write(writing, bytes(65536))
    except BlockingIOError:
        os.set_blocking(writing, True)

    assert not say_to(started(writing), os.getuid(), "one", Processes())

    os.close(reading)
    os.close(writing)


def test_another_process_with_the_same_id_and_another_users_are_told_nothing(tmp_path, started):
    with open(tmp_path / "log", "ab") as log:
        process = started(log)

    assert not say_to(process.replace(start=process.start - 1), os.getuid(), "one", Processes())
    assert not say_to(process, os.getuid() + 1, "one", Processes())

    assert (tmp_path / "log").read_text() == ""
