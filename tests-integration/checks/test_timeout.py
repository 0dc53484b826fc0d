"""A test that hangs fails, whichever session runs it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SETTINGS = Path(__file__).parents[2] / "pyproject.toml"
DEADLOCK = """
import threading

def test_waits_for_itself():
    lock = threading.Lock()
    with lock, lock:
        pass

def test_goes_on():
    pass
"""


def test_every_test_has_a_limit(pytestconfig):
    assert pytestconfig.getini("timeout") == "600"


def test_a_deadlock_is_a_failure_with_a_name_and_other_tests_run(tmp_path):
    (tmp_path / "test_deadlock.py").write_text(DEADLOCK)
    words = ("--numprocesses=1", "--override-ini=timeout=1", "--config-file", SETTINGS, "--rootdir", tmp_path, tmp_path)

    ended = subprocess.run([sys.executable, "-m", "pytest", *words], capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert re.search("^FAILED .*::test_waits_for_itself( - .*)?$", ended.stdout, re.MULTILINE)
    assert "1 failed, 1 passed" in ended.stdout
