"""amd-ctk as a process on simulated hosts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from amdgpu_discovery.simulate import build_host


@pytest.fixture
def host(tmp_path):
    """Return a function that builds the host the commands of a test serve; four MI210 if it says nothing else."""
    return lambda profile="mi210-4": build_host(tmp_path / "host", profile, with_links=False)


@pytest.fixture
def program():
    """Return the path of amd-ctk."""
    return os.path.join(os.path.dirname(sys.executable), "amd-ctk")


@pytest.fixture
def amd_ctk(run_amd_ctk, tmp_path):
    """Return a function that runs amd-ctk on the test's host; what it says of every simulated host is left out."""
    announced = f"Working on the simulated host {tmp_path}/host, not on this machine\n"

    def run(*words, **environment):
        answer = run_amd_ctk(*words, **environment)
        answer.stderr = answer.stderr.replace(announced, "", 1)
        return answer

    return run


@pytest.fixture
def run_amd_ctk(tmp_path, program):
    """Return a function that runs amd-ctk on the test's host and leaves nothing out of what it says."""

    def run(*words, **environment):
        return subprocess.run(
            [program, *map(str, words)],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "AMD_CTK_HOST_ROOT": str(tmp_path / "host"),
                # Width of help.
                "COLUMNS": "100",
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return run
