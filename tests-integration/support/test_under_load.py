"""Interruptions on a busy machine leave nothing behind, and cause one failure."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.box import Box
from support.debootstrap import bootstrap, without_time_limit

TESTS = """
import pytest

@pytest.fixture(scope="module")
def engine():
    import time
    time.sleep(60)

def test_first(engine): pass
def test_second(engine): pass
def test_third(): pass
"""
# Mounts /proc and fails, like an interrupted debootstrap.
DEBOOTSTRAP = """#!/bin/sh
for root; do case $root in */root) mkdir -p "$root/proc"; mount -t proc proc "$root/proc" || exit 3;; esac; done
exit 9
"""


def test_a_fixture_whose_time_is_over_is_one_failure(tmp_path):
    (tmp_path / "test_shared.py").write_text(TESTS)
    plugins = ("-p", "support.one_failure", "-p", "no:cacheprovider", "-rs")
    words = [sys.executable, "-m", "pytest", *plugins, "--timeout=1", "-o", "timeout_method=signal", tmp_path]

    ended = subprocess.run(
        words,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[1]}"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert re.search(r"1 passed, 1 skipped, 1 error in", ended.stdout), ended.stdout
    assert "a fixture has failed in test_shared.py::test_first" in ended.stdout


def test_the_time_limit_of_a_test_stands_while_a_root_is_made():
    with without_time_limit():
        before = signal.setitimer(signal.ITIMER_REAL, 500)
        with without_time_limit():
            assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)

    assert before == (0, 0)
    assert 0 < left <= 500


@pytest.mark.e2e
def test_a_debootstrap_that_is_cut_off_leaves_no_mount(tmp_path, monkeypatch):
    program = tmp_path / "bin/debootstrap"
    program.parent.mkdir()
    program.write_text(DEBOOTSTRAP)
    program.chmod(0o755)
    monkeypatch.setattr("support.debootstrap.engine_program", lambda _: program)

    with pytest.raises(AssertionError):
        bootstrap("trixie", tmp_path / "root")

    # It got as far as the mount.
    assert (tmp_path / "root/proc").is_dir()
    assert f"{tmp_path}/root/proc" not in Path("/proc/self/mounts").read_text()


@pytest.mark.e2e
def test_a_box_that_fails_to_start_is_taken_down(tmp_path):
    class Unprepared(Box):
        def prepare(self):
            self.start("sleep", "600")
            assert Path(f"/proc/{self.pid}").exists()
            raise TimeoutError("its time is over")

    box = Unprepared("/", tmp_path, [{"path": "/dev/kfd", "major": 510, "minor": 0, "gid": 110}])

    with pytest.raises(TimeoutError), box:
        pass

    # The kernel kills the box's processes after the one that was waited for. A zombie has no /proc/PID/exe.
    while Path(f"/proc/{box.pid}/exe").exists():
        time.sleep(0.05)
