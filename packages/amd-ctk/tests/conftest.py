"""amd-ctk as a process on simulated hosts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amdgpu_simulator import build_host
from support.enabled_tracker import enable
from support.ready_interpreter import ReadyInterpreter

PROGRAM = os.path.join(os.path.dirname(sys.executable), "amd-ctk")


@pytest.fixture
def host(tmp_path):
    """Return a function that builds the host the commands of a test serve; four MI210 if it says nothing else."""
    return lambda profile="mi210-4": build_host(tmp_path / "host", profile, bare=True)


@pytest.fixture
def tracked(host):
    """Return four MI210, of which all are exclusive."""
    built = host()
    enable(built, exclusive=True)
    return built


@pytest.fixture
def program():
    """Return the path of amd-ctk."""
    return PROGRAM


@pytest.fixture(scope="session")
def ready():
    """Return an interpreter for the many starts of amd-ctk that ask what a command says."""
    with ReadyInterpreter(PROGRAM, {"PATH": os.environ["PATH"]}) as interpreter:
        yield interpreter


@pytest.fixture
def amd_ctk(run_amd_ctk, tmp_path):
    """Return a function that runs amd-ctk on the test's host; what it says of every simulated host is left out."""
    return lambda *words, **environment: without_announcement(run_amd_ctk(*words, **environment), tmp_path)


@pytest.fixture
def limited_amd_ctk(tmp_path, program):
    """Return a function as `amd_ctk`, for which files that nobody may read are closed to root as well."""
    override = "-dac_override,-dac_read_search"
    limit = ["setpriv", "--bounding-set", override] if os.geteuid() == 0 else []

    def run(*words):
        command = [*limit, program, *map(str, words)]
        answer = subprocess.run(command, env=environment_of(tmp_path), capture_output=True, text=True, check=False)
        return without_announcement(answer, tmp_path)

    return run


@pytest.fixture
def run_amd_ctk(tmp_path, ready):
    """Return a function that runs amd-ctk on the test's host and leaves nothing out of what it says."""
    return lambda *words, **environment: ready.run([*map(str, words)], {**environment_of(tmp_path), **environment})


def without_announcement(answer, directory):
    announced = f"Working on the simulated host {directory}/host, not on this machine\n"
    answer.stderr = answer.stderr.replace(announced, "", 1)
    return answer


def environment_of(directory):
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "AMD_CTK_HOST_ROOT": str(directory / "host"),
        # Width of help.
        "COLUMNS": "100",
    }
