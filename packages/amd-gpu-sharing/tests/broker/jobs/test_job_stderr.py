"""What is said on the standard error of another process is what that process could say itself."""

from __future__ import annotations

import os
import subprocess
import time

import pytest

from amd_gpu_sharing.broker.jobs.child import print_to_process
from amd_gpu_tracker.leases.processes import Processes

SLEEP = ("sleep", "600")


@pytest.fixture
def started():
    """Return a function that starts a process with some standard error, and returns which process it is."""
    running = []

    def start(stderr, command=SLEEP):
        running.append(subprocess.Popen(command, stderr=stderr, stdout=subprocess.DEVNULL))
        return Processes().find(running[-1].pid)

    yield start
    for each in running:
        each.kill()
        each.wait()


@pytest.mark.needs("users' processes")
def test_a_sentence_is_a_line_in_the_log_of_a_job(tmp_path, started):
    with open(tmp_path / "log", "ab") as log:
        process = started(log)

    assert print_to_process(process, os.getuid(), "one\nline", Processes())

    assert (tmp_path / "log").read_text() == "one?line\n"


def test_a_file_that_a_job_has_open_for_reading_only_is_not_written(tmp_path, started):
    (tmp_path / "secret").write_text("kept\n")
    with open(tmp_path / "secret", "rb") as secret:
        process = started(secret)

    assert not print_to_process(process, os.getuid(), "one", Processes())

    assert (tmp_path / "secret").read_text() == "kept\n"


def test_a_pipe_that_is_full_is_not_waited_for(started):
    reading, writing = os.pipe2(os.O_NONBLOCK)
    try:
        while True:
            os.write(writing, bytes(65536))
    except BlockingIOError:
        os.set_blocking(writing, True)

    assert not print_to_process(started(writing), os.getuid(), "one", Processes())

    os.close(reading)
    os.close(writing)


@pytest.mark.needs("namespaces")
def test_of_the_files_of_a_process_in_a_user_namespace_only_those_of_the_host_are_written(tmp_path, started):
    script = f"mount -t tmpfs none {tmp_path}; exec 2>{tmp_path}/inside; exec sleep 600"
    with open(tmp_path / "log", "ab") as log:
        outside = started(log, ("unshare", "--user", "--map-root-user", "--mount", *SLEEP))
        inside = started(log, ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script))
    if not _has_become(outside, "sleep"):
        pytest.skip("no user namespace can be made here")
    assert _has_become(inside, "sleep")

    assert print_to_process(outside, os.getuid(), "one", Processes())
    # Who mounts a file system there may serve it, and never answer.
    assert not print_to_process(inside, os.getuid(), "one", Processes())

    assert (tmp_path / "log").read_text() == "one\n"


def _has_become(process, program):
    deadline = time.monotonic() + 10
    while Processes().words(process.pid)[:1] != [program] and time.monotonic() < deadline:
        time.sleep(0.01)
    return Processes().words(process.pid)[:1] == [program]


def test_another_process_with_the_same_id_and_one_of_another_user_get_no_message(tmp_path, started):
    with open(tmp_path / "log", "ab") as log:
        process = started(log)

    assert not print_to_process(process.replace(start=process.start - 1), os.getuid(), "one", Processes())
    assert not print_to_process(process, os.getuid() + 1, "one", Processes())

    assert (tmp_path / "log").read_text() == ""
