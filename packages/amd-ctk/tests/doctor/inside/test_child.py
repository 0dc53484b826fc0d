"""A process that cannot be entered as it is, is not entered; what was looked at is what is opened."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from amd_ctk.doctor.inside.child import NoAnswer, ask_inside, held, open_own_files, reopen
from amd_ctk.doctor.inside.process import read_process
from amd_gpu_tracker.leases.processes import Processes

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root enters other processes")


@pytest.fixture
def myself():
    return read_process(Processes().myself())


@pytest.mark.needs("users' processes")
def test_another_process_with_its_id_is_not_entered(myself):
    process = myself.replace(identity=myself.identity.replace(start=myself.identity.start - 1))

    with pytest.raises(NoAnswer) as failure:
        ask_inside(process, lambda _: {}, time.monotonic() + 60)

    assert failure.value.message == "it cannot be entered: its first process has ended"


@pytest.mark.needs("users' processes")
def test_without_its_device_cgroup_nothing_is_tried(myself):
    with pytest.raises(NoAnswer) as failure:
        ask_inside(myself.replace(cgroups=()), lambda _: {}, time.monotonic() + 60)

    assert failure.value.message == "it cannot be entered: its device cgroup was not found"


@pytest.mark.needs("users' processes")
def test_a_call_that_the_kernel_refuses_is_named(myself, tmp_path):
    (tmp_path / "cgroup.procs").touch()

    # Nobody joins a user namespace twice; in Docker's containers, nobody joins one at all.
    with pytest.raises(NoAnswer) as failure:
        ask_inside(myself.replace(uid_inside=0, cgroups=(str(tmp_path),)), lambda _: {}, time.monotonic() + 60)

    assert failure.value.message in (
        "it cannot be entered: Invalid argument",
        "it cannot be entered: the operation is refused",
    )


@pytest.mark.needs("cgroups")
def test_the_child_has_no_input_and_is_ended_first(myself):
    def look(_):
        with open("/proc/self/oom_score_adj") as file:
            return {"input": os.readlink("/proc/self/fd/0"), "oom": file.read().strip()}

    assert ask_inside(myself, look, time.monotonic() + 60) == {"input": "/dev/null", "oom": "1000"}


WAITING = """
import sys, time
from pathlib import Path
from amd_ctk.doctor.inside.child import ask_inside
from amd_ctk.doctor.inside.process import read_process
from amd_gpu_tracker.leases.processes import Processes

def look(_):
    Path(sys.argv[1]).touch()
    time.sleep(600)

ask_inside(read_process(Processes().myself()), look, time.monotonic() + 60)
"""


@pytest.mark.needs("cgroups")
def test_the_child_ends_with_the_command_that_asks(tmp_path):
    with subprocess.Popen([sys.executable, "-c", WAITING, str(tmp_path / "there")]) as command:
        wait_until((tmp_path / "there").exists)
        with open(f"/proc/{command.pid}/task/{command.pid}/children") as file:
            child = Processes().find(int(file.read()))
        command.kill()

    wait_until(lambda: not Processes().is_running(child))


def wait_until(happened):
    for _ in range(6000):
        if happened():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within a minute")


@pytest.fixture
def own_files():
    descriptor = open_own_files()
    yield descriptor
    os.close(descriptor)


def test_a_file_is_opened_that_its_path_leads_to_no_longer(tmp_path, own_files):
    path = tmp_path / "file"
    path.write_text("first")

    with held(str(path)) as handle:
        path.rename(tmp_path / "other")
        path.write_text("second")
        descriptor = reopen(handle, os.O_RDONLY, own_files)

    with open(descriptor) as file:
        assert file.read() == "first"


def test_a_link_is_followed(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/file").touch()
    (tmp_path / "link").symlink_to("directory")

    with held(f"{tmp_path}/link/file") as handle:
        assert os.path.samestat(os.fstat(handle), os.stat(tmp_path / "directory/file"))


def test_nothing_stays_open_where_nothing_is_found(tmp_path):
    before = len(os.listdir("/proc/self/fd"))

    with pytest.raises(FileNotFoundError), held(f"{tmp_path}/missing/file"):
        pass

    assert len(os.listdir("/proc/self/fd")) == before
