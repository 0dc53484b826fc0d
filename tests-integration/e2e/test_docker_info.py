"""What dockerd says about its default runtime, which it asks for its `--version`."""

from __future__ import annotations

import subprocess

import pytest

from support.installed import engine_program

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def test_dockerd_finds_runcs_version_in_what_our_runtime_says(start_docker, mi300x):
    said = subprocess.run([engine_program("runc"), "--version"], capture_output=True, text=True, check=True).stdout
    commit = next(line.removeprefix("commit: ") for line in said.splitlines() if line.startswith("commit: "))

    docker = start_docker(mi300x.root, **{"default-runtime": "amd"})

    assert docker("info", "--format={{.DefaultRuntime}} {{.RuncCommit.ID}}").stdout == f"amd {commit}\n"
    assert "failed to retrieve" not in docker.log
