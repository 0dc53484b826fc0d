"""The pytest plugin, as a stranger's project uses it: a test runs a program on a simulated server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROJECT = """
import subprocess, sys
from pathlib import Path
import pytest

LIST = ["sh", "-c", "ls -d /sys/class/kfd/kfd/topology/nodes/* | wc -l; ls /dev/dri"]

@pytest.mark.amd_host("mi210-4")
def test_programs_see_the_server(amd_host):
    answer = amd_host.run(LIST, capture_output=True, text=True)

    assert answer.returncode == 0
    assert answer.stderr == ""
    assert answer.stdout.count("renderD") == 4

@pytest.mark.amd_host("mi210-4")
def test_a_second_program_sees_the_same_and_a_lost_gpu_is_gone(amd_host):
    first = amd_host.run(LIST, capture_output=True, text=True)
    second = amd_host.run(LIST, capture_output=True, text=True)
    amd_host.break_("3", "lost")
    third = amd_host.run(LIST, capture_output=True, text=True)

    assert first.stdout == second.stdout
    assert third.stdout.count("renderD") == 3

def test_the_exit_code_is_that_of_the_program(amd_host):
    assert amd_host.run([sys.executable, "-c", "raise SystemExit(7)"]).returncode == 7

def test_libraries_take_the_root(amd_host):
    assert amd_host.profile == "mi300x-8"
    assert len(list((amd_host.path / "sys/class/kfd/kfd/topology/nodes").iterdir())) == 10
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "test_it.py").write_text(PROJECT)

    def run(*words, **environment):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, "test_it.py"]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, **environment}
        )

    return run


def forbid_namespaces(tmp_path):
    """Return the environment in which the interpreter finds a module that refuses namespaces."""
    (tmp_path / "sitecustomize.py").write_text(
        "import amdgpu_simulator.runs.namespace as n\n"
        "def refuse(*_):\n"
        "    raise n.NoNamespace('no mount namespace can be made here: Operation not permitted', hint=n.HINT)\n"
        "n.enter_namespace = refuse\n"
    )
    return {"PYTHONPATH": str(tmp_path)}


def test_a_strangers_tests_run_programs_on_the_server(project):
    from amdgpu_simulator.runs.server import find_obstacle

    if obstacle := find_obstacle():
        pytest.skip(obstacle)

    done = project()

    assert "4 passed" in done.stdout, done.stdout


def test_where_namespaces_are_forbidden_only_programs_are_skipped_and_the_reason_is_said(project, tmp_path):
    done = project("-rs", **forbid_namespaces(tmp_path))

    assert "1 passed, 3 skipped" in done.stdout, done.stdout
    assert "no mount namespace can be made here: Operation not permitted (run it with sudo; Ubuntu" in done.stdout


def test_a_run_that_requires_the_server_fails_there(project, tmp_path):
    done = project("--amd-host=require", **forbid_namespaces(tmp_path))

    assert done.returncode == 1
    assert "3 failed, 1 passed" in done.stdout, done.stdout


def test_a_profile_that_does_not_exist_is_an_error_with_one_message(project, tmp_path):
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.amd_host('mi999')\ndef test_it(amd_host):\n    pass\n"
    )

    done = project()

    assert "1 error" in done.stdout
    assert "mi999" in done.stdout


def test_pytest_loads_nothing_of_the_simulator_before_a_test_uses_it():
    code = (
        "import sys, amdgpu_simulator.pytest_plugin\n"
        "print(sorted(name for name in sys.modules if name.startswith('amdgpu')))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "['amdgpu_discovery', 'amdgpu_simulator', 'amdgpu_simulator.pytest_plugin']\n"
