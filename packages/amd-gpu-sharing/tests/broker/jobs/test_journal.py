"""The service's lines are found in the journal by GPU, user, job and verdict."""

from __future__ import annotations

import os
import socket

import pytest

from amd_gpu_sharing.broker.jobs import journal
from amd_gpu_tracker.book.lease import BY_API, Lease, ProcessId
from amdgpu_discovery.numbering import locate_gpus


@pytest.fixture
def journald(tmp_path, monkeypatch):
    """Return a socket that gets what the journal would get from a service of systemd."""
    path = f"{tmp_path}/socket"
    monkeypatch.setattr(journal, "JOURNAL", path)
    status = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.settimeout(10)
        listener.bind(path)
        yield listener


def test_a_line_has_a_field_for_each_gpu_and_one_for_user_job_and_verdict(journald):
    journal.write_line("granted", "job train of user 1001: GPUs [0, 3]", job="train", user=1001, gpus=[0, 3])

    assert journald.recv(4096).decode() == (
        "MESSAGE=granted: job train of user 1001: GPUs [0, 3]\nPRIORITY=6\nSYSLOG_IDENTIFIER=amd-gpu-tracker\n"
        "VERDICT=granted\nJOB=train\nUSER=1001\nGPU=0\nGPU=3\n"
    )


def test_a_line_about_the_job_of_a_lease_has_the_numbers_of_its_gpus(journald, host):
    second = locate_gpus(host)[1]
    lease = Lease(
        container_id="1001/train",
        creator=ProcessId(pid=1, start=0),
        gpus=(second.key,),
        ways=(BY_API,),
        since=0.0,
        boot_offset=0.0,
        boot_id="",
        namespace="",
        person=1001,
    )

    journal.log_of(journal.write_line, lease, host)("warned", "1001/train: reaches its time limit in 10 min")

    assert journald.recv(4096).decode().splitlines()[3:] == ["VERDICT=warned", "JOB=train", "USER=1001", "GPU=1"]


def test_a_name_with_a_line_break_makes_no_field(journald):
    journal.write_line("ended", "1001/a\nUSER=0", job="a\nUSER=0", user=1001)

    lines = journald.recv(4096).decode().splitlines()
    assert [line for line in lines if line.startswith("USER=")] == ["USER=1001"]
    assert len(lines) == 6


def test_without_a_journal_the_line_is_on_standard_error(monkeypatch, capfd):
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)

    journal.write_line("released", "1001/train", job="train")

    assert capfd.readouterr().err == "released: 1001/train\n"


def test_a_journal_that_is_away_loses_no_line(journald, tmp_path, capfd, monkeypatch):
    status = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    os.unlink(f"{tmp_path}/socket")

    journal.write_line("released", "1001/train", job="train")

    assert capfd.readouterr().err == "released: 1001/train\n"
