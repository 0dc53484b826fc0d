"""The pytest plugin, as a stranger's project uses it: a test runs a program on a simulated server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amdgpu_simulator.runs.server import find_obstacle

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

# Lists GPUs in three ways. The last one counts boards, so that it does not see partitions.
LISTER = """
from pathlib import Path

def by_kfd():
    nodes = Path("/sys/class/kfd/kfd/topology/nodes").iterdir()
    return sum("simd_count 0\\n" not in (node / "properties").read_text() for node in nodes)

def by_nodes():
    return len([*Path("/dev/dri").glob("renderD*")])

def by_pci():
    return sum(path.read_text() == "0x1002\\n" for path in Path("/sys/bus/pci/devices").glob("*/vendor"))

print(by_kfd(), by_nodes(), by_pci())
"""
TESTS_OF_LISTER = """
import sys, pytest

def listed(amd_host):
    return amd_host.run([sys.executable, "lister.py"], capture_output=True, text=True).stdout

@pytest.mark.amd_host("mi210-4")
def test_three_ways_find_four_gpus(amd_host):
    assert listed(amd_host) == "4 4 4\\n"

@pytest.mark.amd_host("mi300x-8-cpx")
def test_three_ways_find_63_partitions(amd_host):
    assert listed(amd_host) == "63 63 63\\n"
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


@pytest.fixture
def namespaces():
    """Skip where no program can run on a server."""
    if obstacle := find_obstacle():
        pytest.skip(obstacle)


@pytest.mark.usefixtures("namespaces")
def test_tests_of_another_project_run_programs_on_the_server(project):
    done = project()

    assert "4 passed" in done.stdout, done.stdout


@pytest.mark.usefixtures("namespaces")
def test_a_test_of_a_dozen_lines_finds_a_bug_with_partitions(project, tmp_path):
    (tmp_path / "lister.py").write_text(LISTER)
    (tmp_path / "test_it.py").write_text(TESTS_OF_LISTER)

    done = project()

    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert r"assert '63 63 8\n' == '63 63 63\n'" in done.stdout


def test_where_namespaces_are_forbidden_only_programs_are_skipped_and_the_reason_is_reported(project, tmp_path):
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
