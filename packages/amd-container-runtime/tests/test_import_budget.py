"""What a container start loads is a design decision; a change of the lists below says why.

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
from amd_container_runtime.start_file import MODULES, TRACKED_MODULES
from amd_gpu_tracker.face.tracker import Tracker

# Each of these takes as long as everything else that a start does, or runs programs, or belongs to commands.
FORBIDDEN = {
    *("argparse", "contextlib", "dataclasses", "enum", "functools", "json", "logging", "os", "pathlib", "re", "shutil"),
    *("signal", "subprocess", "tempfile", "typing"),
    *("filelock", "jsonschema", "pyudev", "rich", "tomlkit", "typer"),
}
PACKAGES = ("amd_container_runtime", "amd_device_spec", "amd_gpu_tracker", "amdgpu_discovery")
# Each module of the toolkit is a few system calls. Packages of which modules are loaded are not counted: they say what
# they are for, and little more.
MOST_FOR_EVERY_CALL = 7
MOST_FOR_CREATE = 21
# One of them writes down that the reservation begins; another says whether the tracker is enabled, which the package
# itself cannot say without being in a circle with its modules.
MOST_FOR_TRACKED_CREATE = 34


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
    return loaded_by(runtime)


def loaded_by(runtime):
    packages = (amd_container_runtime, amd_device_spec, amd_gpu_tracker, amdgpu_discovery)
    paths = [os.path.dirname(os.path.dirname(package.__file__)) for package in packages]

    def load(*words):
        command = ["/usr/bin/amd-container-runtime", *map(str, words)]
        code = (
            f"import sys; sys.path[:0] = {paths!r}; sys.argv = {command!r};"
            " from amd_container_runtime.shim import main; main()"
        )
        return imported(code, runtime.environment) - imported("pass", runtime.environment)

    return load


def of_toolkit(modules):
    """Return the modules of this product among `modules`, without the packages they are in."""
    own = {name for name in modules if name.partition(".")[0] in PACKAGES}
    return {name for name in own if not any(other.startswith(f"{name}.") for other in own)}


def names_in(listed):
    """Return the modules of a list of the start file."""
    return {f"{package}.{name}" for package, names in listed.items() for name in names.split()}


def test_a_call_that_starts_nothing_loads_few_modules(loaded):
    modules = loaded("state", "c1")

    assert not modules & FORBIDDEN
    assert not any(name.startswith("amd_gpu_tracker") for name in modules)
    assert len(of_toolkit(modules)) <= MOST_FOR_EVERY_CALL


def test_create_loads_few_modules(runtime, loaded):
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert not modules & FORBIDDEN
    assert len(of_toolkit(modules)) <= MOST_FOR_CREATE


def test_a_create_without_the_tracker_loads_what_every_start_runs(runtime, loaded):
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert names_in(MODULES) | set(PACKAGES) == {name for name in modules if name.partition(".")[0] in PACKAGES}


def test_only_what_slurm_starts_loads_what_is_for_slurm(runtime, loaded):
    runtime.write_config("AMD_VISIBLE_DEVICES=none")
    without = loaded("create", "--bundle", runtime.bundle, "c1")
    runtime.write_config("AMD_VISIBLE_DEVICES=none", "SLURM_JOB_ID=7")

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert not modules & FORBIDDEN
    assert modules - without == {
        "amd_device_spec.slurm_job",
        "amdgpu_discovery.choices.unknown_gpus",
    }


def test_only_an_image_that_requires_something_loads_what_checks_it(runtime, loaded):
    runtime.write_config("AMD_VISIBLE_DEVICES=all")
    without = loaded("create", "--bundle", runtime.bundle, "c1")
    runtime.write_config("AMD_VISIBLE_DEVICES=all", "AMD_REQUIRE_GFX=gfx=gfx90a")

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert not modules & FORBIDDEN
    assert not any("requirements" in name for name in without)
    assert "amdgpu_discovery.requirements.check" in modules - without


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes device nodes")
def test_the_module_that_makes_nodes_is_loaded_only_with_a_user_namespace(runtime, loaded):
    runtime.write_config("AMD_VISIBLE_DEVICES=all")
    without = loaded("create", "--bundle", runtime.bundle, "c1")
    runtime.write_config("AMD_VISIBLE_DEVICES=all", linux={"namespaces": [{"type": "user"}]})

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert modules - without == {"amd_container_runtime.private_nodes"}


def test_a_tracked_create_loads_the_tracker_and_no_library(runtime, loaded):
    tracker = Tracker(runtime.host)
    tracker.enable()
    # The first claim of a boot looks whether the GPUs are those that are tracked.
    tracker.reserve("0", name="first")
    tracker.release("first")
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert not modules & FORBIDDEN
    assert len(of_toolkit(modules)) <= MOST_FOR_TRACKED_CREATE
    # The packages' file for a start has these, and nothing that it would load for nothing.
    listed = names_in(MODULES) | names_in(TRACKED_MODULES)
    assert listed | set(PACKAGES) == {name for name in modules if name.partition(".")[0] in PACKAGES}


def test_a_start_on_idle_gpus_that_keep_much_memory_for_themselves_judges_no_use(runtime_on):
    runtime = runtime_on("mi300x-8", bare=False)
    tracker = Tracker(runtime.host)
    tracker.enable()
    tracker.reserve("0", name="first")
    tracker.release("first")
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    modules = loaded_by(runtime)("create", "--bundle", runtime.bundle, "c1")

    # An idle MI300X uses 283 MiB.
    assert names_in(TRACKED_MODULES) <= modules
    assert not any(name.startswith(("amdgpu_discovery.usage", "amdgpu_discovery.health")) for name in modules)


def test_a_start_beside_a_job_loads_nothing_about_other_kinds_of_leases(runtime, loaded):
    tracker = Tracker(runtime.host)
    tracker.enable()
    tracker.reserve("0", name="train")
    runtime.write_config("AMD_VISIBLE_DEVICES=all")

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert not modules & FORBIDDEN
    assert "amd_gpu_tracker.leases.liveness" in modules
    assert "amd_gpu_tracker.book.kinds" not in modules


def test_a_start_with_the_gpus_of_a_job_loads_nothing_about_other_kinds_of_leases(runtime, loaded):
    tracker = Tracker(runtime.host)
    tracker.enable()
    tracker.set_accessibility("0", exclusive=True)
    token = tracker.reserve("0", name="train").environment["AMD_CTK_RESERVATION"]
    runtime.write_config("AMD_VISIBLE_DEVICES=0", f"AMD_CTK_RESERVATION={token}")

    modules = loaded("create", "--bundle", runtime.bundle, "c1")

    assert not modules & {"argparse", "json", "logging", "re", "typing"}
    assert "amd_gpu_tracker.claims.handover" in modules
    assert "amd_gpu_tracker.book.kinds" not in modules
