"""What a container start loads is a design decision; whoever changes it changes this list and says why.

docs/explanation/architecture.md has what the modules cost.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import amd_container_runtime
import amd_device_spec
import amd_gpu_tracker
import amdgpu_discovery
from amd_gpu_tracker.tracker import Tracker

# Of python itself, beyond what it loads to do nothing; "os" is not among them.
PYTHON = {"_stat", "__future__", "errno", "time"}

EVERY_CALL = {
    "amd_container_runtime",
    "amd_container_runtime.arguments",
    "amd_container_runtime.low_level",
    "amd_container_runtime.shim",
    "amd_device_spec",
    "amd_device_spec.settings",
    "amdgpu_discovery",
    "amdgpu_discovery.errors",
    "amdgpu_discovery.files",
    "amdgpu_discovery.host",
    "amdgpu_discovery.paths",
    "amdgpu_discovery.value",
}
CREATE = EVERY_CALL | {
    "_json",
    "amd_container_runtime.bundle",
    "amd_container_runtime.create",
    "amd_container_runtime.report",
    "amd_container_runtime.user_namespace",
    "amd_device_spec.errors",
    "amd_device_spec.oci",
    "amd_device_spec.request",
    "amd_gpu_tracker",
    "amd_gpu_tracker.switch",
    "amdgpu_discovery.device_nodes",
    "amdgpu_discovery.drm",
    "amdgpu_discovery.kfd_topology",
    "amdgpu_discovery.location",
    "amdgpu_discovery.numbering",
    "amdgpu_discovery.plain_json",
    "amdgpu_discovery.selection",
}
# Where the GPU Tracker is enabled.
TRACKED_CREATE = CREATE | {
    "fcntl",
    "amd_container_runtime.claim",
    "amd_gpu_tracker.given_gpus",
    "amd_gpu_tracker.hooks",
    "amd_gpu_tracker.identity",
    "amd_gpu_tracker.lease",
    "amd_gpu_tracker.lock",
    "amd_gpu_tracker.policy",
    "amd_gpu_tracker.processes",
    "amd_gpu_tracker.reservation",
    "amd_gpu_tracker.rootless",
    "amd_gpu_tracker.state",
}


def imported(code, environment):
    """Return the modules that a lean interpreter loads for `code`."""
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line for line in answer.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines} - {"imported package"}


@pytest.fixture
def loaded(runtime):
    """Return a function that gives the modules one call of the runtime loads beyond a bare interpreter's."""
    packages = (amd_container_runtime, amd_device_spec, amd_gpu_tracker, amdgpu_discovery)
    paths = [os.path.dirname(os.path.dirname(package.__file__)) for package in packages]

    def load(*words):
        command = ["/usr/bin/amd-container-runtime", *map(str, words)]
        code = (
            f"import sys; sys.path[:0] = {paths!r}; sys.argv = {command!r};"
            " from amd_container_runtime.shim import main; main()"
        )
        return imported(code, runtime.environment) - imported("pass", runtime.environment) - PYTHON

    return load


def test_a_call_that_starts_nothing_loads_only_small_modules(loaded):
    assert loaded("state", "c1") == EVERY_CALL


def test_create_loads_what_it_uses(runtime, loaded):
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    assert loaded("create", "--bundle", runtime.bundle, "c1") == CREATE


def test_a_tracked_create_loads_the_tracker_and_no_library(runtime, loaded):
    tracker = Tracker(runtime.host)
    tracker.enable()
    # The first claim of a boot looks whether the GPUs are those that are tracked.
    tracker.reserve("first", "0")
    tracker.release("first")
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    assert loaded("create", "--bundle", runtime.bundle, "c1") == TRACKED_CREATE
