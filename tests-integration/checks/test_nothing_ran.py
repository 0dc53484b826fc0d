"""A session whose tests were all skipped has failed, and the packages of the programs that it lacks are in one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
SKIPPED = 'import pytest\ndef test_a(): pytest.skip("no QEMU")\n'
PROGRAMS = """\
# What kernel sessions need: kernel
no-such-qemu qemu-system-x86 kernel power
no-such-depmod kmod kernel power
no-such-modprobe kmod kernel power
no-such-podman podman e2e
sh dash kernel
"""


def run_pytest(directory, source, *words, **variables):
    """Run pytest on a module with the settings of every test run; return how it ended."""
    shutil.copy(CHECKOUT / "conftest.py", directory)
    (directory / "test_a.py").write_text(source)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-o",
        f"pythonpath={CHECKOUT / 'tests-integration'}",
        *words,
        "test_a.py",
    ]
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, check=False).returncode


@pytest.mark.parametrize("words", [(), ("--numprocesses=1",)])
def test_a_run_whose_tests_were_all_skipped_has_failed(tmp_path, words):
    assert run_pytest(tmp_path, SKIPPED, *words) == pytest.ExitCode.NO_TESTS_COLLECTED
    assert run_pytest(tmp_path, SKIPPED + "def test_b(): pass\n", *words) == pytest.ExitCode.OK
    assert run_pytest(tmp_path, SKIPPED + "def test_b(): assert 0\n", *words) == pytest.ExitCode.TESTS_FAILED


NEEDY = """
import pytest
from support import privileges
privileges.OBSTACLES["wings"] = (lambda: {}, "root may not fly here")
@pytest.mark.needs("wings")
def test_a(): pass
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="other users are skipped for other reasons")
def test_a_test_that_needs_a_privilege_is_skipped_without_it_and_fails_in_the_gate(tmp_path, monkeypatch):
    monkeypatch.delenv("AMD_GATE", raising=False)

    assert run_pytest(tmp_path, NEEDY.format(True)) == pytest.ExitCode.OK
    assert run_pytest(tmp_path, NEEDY.format(False)) == pytest.ExitCode.NO_TESTS_COLLECTED
    assert run_pytest(tmp_path, NEEDY.format(False), AMD_GATE="true") == pytest.ExitCode.TESTS_FAILED


@pytest.fixture
def clone(tmp_path):
    """Return a directory with the scripts that install programs, and with a list of their own."""
    shutil.copytree(CHECKOUT / ".ci", tmp_path / "clone/.ci")
    (tmp_path / "clone/.ci/programs").write_text(PROGRAMS)
    (tmp_path / "clone/.venv").mkdir()
    (tmp_path / "clone/.venv/ready").touch()
    return tmp_path / "clone"


def test_packages_that_a_session_lacks_are_named(clone):
    def missing(*sessions):
        ended = subprocess.run([".ci/missing", *sessions], cwd=clone, stdout=subprocess.PIPE, text=True, check=True)
        return ended.stdout.split()

    assert missing("kernel") == ["kmod", "qemu-system-x86"]
    assert missing("e2e", "power") == ["kmod", "podman", "qemu-system-x86"]
    assert missing("lint") == []


@pytest.mark.parametrize(("words", "lacking"), [(("kernel",), "kmod qemu-system-x86"), ((), "podman")])
def test_the_check_installs_what_its_sessions_lack(clone, tmp_path, words, lacking):
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}

    ended = subprocess.run(
        [".ci/prepare", *words], cwd=clone, env=environment, stderr=subprocess.PIPE, text=True, check=True
    )

    assert ended.stderr == f"Missing, and installed here only as root and with apt: {lacking} \n"


def test_every_session_of_the_list_is_one_of_nox():
    lines = (CHECKOUT / ".ci/programs").read_text().splitlines()
    named = {session for line in lines if not line.startswith("#") for session in line.split()[2:]} - {"ci"}
    menu = (CHECKOUT / "noxfile.py").read_text()

    assert [name for name in sorted(named) if f"\ndef {name.replace('-', '_')}(" not in menu] == []
