"""The limit on GPU memory that `amd-ctk explain` shows is the one that `amd-container-runtime create` then sets."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import pytest

from amd_container_runtime import runc
from amd_container_runtime.create import add_requested_gpus
from amd_container_runtime.report import Log
from amd_container_runtime.runc import find_low_level_runtime, parse_call
from amd_ctk.configuration import runtime_program
from amd_ctk.explain.plan import preview_start
from amd_device_spec.settings import Settings
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.errors import ToolkitError
from amdgpu_simulator import build_host

REGION = "drm/0000:03:00.0/vram"
ASKED = {"nothing": (), "a limit": ("AMD_VRAM=8GiB",), "its job's part": ()}
# By the engine's cgroup driver; the last is no slice of systemd.
PATHS = ("system.slice:docker:c1", "/docker/c1", "user.service:libpod:c1")
PROGRAMS = {
    "runc": {"runc": "runc version 1.3.0"},
    "both": {"runc": "runc version 1.3.0", "crun": "crun version 1.28"},
    "crun": {"crun": "crun version 1.28"},
    "an old crun": {"crun": "crun version 1.14.1"},
}
SETTINGS = {
    "usual": Settings(),
    "required": Settings(vram_limit="required"),
    "maximum": Settings(vram_maximum=4096),
    "off": Settings(vram_limit="off"),
    "crun is set": Settings(low_level_runtime="crun"),
}
ANNOTATIONS = ({}, {"run.oci.keep_original_groups": "1"})


@pytest.fixture
def host(tmp_path):
    """Return four MI210 that are tracked, and a kernel that limits their memory."""
    made = build_host(tmp_path / "host", "mi210-4", bare=True)
    for name in ("", "system.slice", "user.slice"):
        cgroup = Path(made.path("/sys/fs/cgroup"), name)
        cgroup.mkdir(parents=True, exist_ok=True)
        (cgroup / "cgroup.subtree_control").write_text("")
    Path(made.path("/sys/fs/cgroup/cgroup.controllers")).write_text("cpu memory dmem\n")
    Path(made.path("/sys/fs/cgroup/dmem.capacity")).write_text(f"{REGION} 68702699520\n")
    Tracker(made).enable()
    return made


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs these low-level runtimes, and no others; it returns PATH."""
    monkeypatch.setattr(runc, "USUAL_DIRECTORIES", ())
    monkeypatch.setattr(runtime_program, "LOW_LEVEL_DIRECTORIES", ())
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))

    def put(versions):
        for path in directory.iterdir():
            path.unlink()
        for name, version in versions.items():
            (directory / name).write_text(f"#!/bin/sh\necho {version}\n")
            (directory / name).chmod(0o755)
        return str(directory)

    return put


def starts(host, directory, spec, chosen, path):
    """Return what config.json holds in the end, or why the container does not start."""
    (directory / "config.json").write_text(json.dumps(spec))
    driver = ["--systemd-cgroup"] if ":" in spec["linux"]["cgroupsPath"] else []
    call = parse_call([*driver, "create", "--bundle", str(directory), "c1"])
    try:
        program = find_low_level_runtime(chosen.low_level_runtime, path, own_path="/none")
        add_requested_gpus(call, host, chosen, Log(host, path="/dev/null"), program)
    except ToolkitError as error:
        return str(error)
    finally:
        Tracker(host).release("c1")
    return json.loads((directory / "config.json").read_bytes())


def is_explained(host, spec, chosen):
    plan = preview_start(spec, host, chosen, container_id="c1")
    return str(plan.refusals[0]) if plan.refusals else plan.spec


def passed_on(host):
    return [file.read_text() for file in Path(host.path("/sys/fs/cgroup")).rglob("cgroup.subtree_control")]


@pytest.mark.parametrize("programs", PROGRAMS)
@pytest.mark.parametrize("asked", ASKED)
def test_the_limit_is_the_same_for_each_runtime_cgroup_and_setting(host, install, tmp_path, programs, asked):
    path = install(PROGRAMS[programs])
    job = Tracker(host).reserve("0", name="job", vram_mb=16384 if asked == "its job's part" else 0)
    token = f"AMD_CTK_RESERVATION={job.environment['AMD_CTK_RESERVATION']}"
    limits = []
    for cgroup, chosen, annotated in product(PATHS, SETTINGS, ANNOTATIONS):
        if SETTINGS[chosen].low_level_runtime not in ("", *PROGRAMS[programs]):
            continue
        spec = {
            "process": {"env": ["AMD_VISIBLE_DEVICES=0", token, *ASKED[asked]]},
            "annotations": annotated,
            "linux": {"cgroupsPath": cgroup},
        }
        explained = is_explained(host, spec, SETTINGS[chosen])
        assert set(passed_on(host)) == {""}

        assert explained == starts(host, tmp_path, spec, SETTINGS[chosen], path)
        resources = {} if isinstance(explained, str) else explained["linux"].get("resources", {})
        limits += [resources["unified"]] if "unified" in resources else []
        for file in Path(host.path("/sys/fs/cgroup")).rglob("cgroup.subtree_control"):
            file.write_text("")
    # Where nothing enforces a limit, that is all the same.
    assert bool(limits) == (programs != "an old crun")
