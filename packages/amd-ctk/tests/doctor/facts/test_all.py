"""What is waited for shares one time."""

from __future__ import annotations

import os
import threading

import pytest

from amd_ctk.doctor.facts import all as every
from amd_ctk.doctor.facts.all import seconds_left
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host


@pytest.mark.parametrize(("waited", "left"), [(0.0, 8.0), (0.5, 7.5), (7.9, 0.3), (60.0, 0.3)])
def test_an_engine_that_does_not_answer_leaves_a_container_less_time(waited, left):
    assert seconds_left(waited) == left


def test_nothing_forks_beside_threads_that_ask_engines(tmp_path, monkeypatch):
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    Tracker(host).enable()
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    # The client answers when all else has been read.
    program.write_text(f"#!/bin/sh\nexec 2>&-; while [ ! -e {tmp_path}/read ]; do sleep 0.02; done\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    read_packages, fork, threads = every.read_packages, os.fork, []

    def read_last(host):
        (tmp_path / "read").touch()
        return read_packages(host)

    def note_threads():
        threads.append([each.name for each in threading.enumerate() if each.name.startswith("ThreadPoolExecutor")])
        return fork()

    monkeypatch.setattr(every, "read_packages", read_last)
    monkeypatch.setattr(os, "fork", note_threads)

    every.read_facts(host)

    assert threads
    assert not any(threads)
