"""runc and crun without any engine: what a container sees, and the calls an engine would make."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from amd_ctk.doctor.facts.containers import find_unstarted
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.running import RunningContainer
from amdgpu_discovery.host import Host
from support.bare_runtime import BareRuntime
from support.installed import engine_program, our_program, require_root
from support.seen import SeenNode, parse_seen

pytestmark = pytest.mark.e2e

KFD = SeenNode("/dev/kfd", "511:0", "666", "0:110", "opens")
GPU_0 = [
    SeenNode("/dev/dri/card1", "226:1", "666", "0:44", "opens"),
    SeenNode("/dev/dri/renderD128", "226:128", "666", "0:110", "opens"),
]
GPU_2 = [
    SeenNode("/dev/dri/card17", "226:17", "666", "0:44", "opens"),
    SeenNode("/dev/dri/renderD144", "226:144", "666", "0:110", "opens"),
]
DRM_NUMBERS = [f"226:{minor}" for minor in (*range(65), *range(128, 192))]


@pytest.fixture(params=[pytest.param("runc", marks=pytest.mark.runc), pytest.param("crun", marks=pytest.mark.crun)])
def low_level(request) -> Path:
    require_root()
    return engine_program(request.param)


@pytest.fixture
def runtime(low_level, tmp_path, rootfs, amd_host):
    """Return our runtime on a host with eight MI300X whose administrator chose this low-level runtime."""
    choice = [our_program("amd-ctk"), "config", "set", "low-level-runtime", low_level]
    subprocess.run(choice, env={"AMD_CTK_HOST_ROOT": amd_host.path}, check=True, capture_output=True)
    runtime = BareRuntime(our_program("amd-container-runtime"), tmp_path, rootfs, amd_host.path, low_level)
    yield runtime
    for name in ("c1", "c2"):
        runtime("delete", "--force", name)


def test_a_container_sees_the_gpus_it_asked_for_and_no_other(runtime):
    assert sorted(parse_seen(runtime.run("0,2", "list-gpus"))) == sorted([KFD, *GPU_0, *GPU_2])


def test_a_container_that_asks_for_none_sees_none(runtime):
    assert runtime.run("none", "list-gpus") == ""


def test_the_cgroup_allows_the_numbers_of_its_gpus_and_no_other(runtime):
    tried = parse_seen(runtime.run("0,2", "try-numbers", *DRM_NUMBERS, "511:0"))

    assert {node.access for node in tried} == {"opens", "refused-by-cgroup"}
    opened = [node.numbers for node in tried if node.access == "opens"]
    assert opened == ["226:1", "226:17", "226:128", "226:144", "511:0"]


def test_a_user_who_is_not_root_opens_its_gpus(runtime):
    assert sorted(parse_seen(runtime.run("0", "list-gpus", user=1000))) == sorted([KFD, *GPU_0])


def test_the_calls_of_an_engine_make_start_enter_and_end_a_container(runtime):
    bundle = runtime.bundle("c1", "0", ["sleep", "600"], user=1000)
    pid_file = runtime.directory / "pid"

    created = runtime("create", "--bundle", bundle, "--pid-file", pid_file, "c1")
    assert created.returncode == 0, created.stderr
    state = json.loads(runtime("state", "c1").stdout)
    assert (state["status"], state["pid"]) == ("created", int(pid_file.read_text()))
    assert runtime("start", "c1").returncode == 0
    assert sorted(parse_seen(runtime("exec", "c1", "list-gpus").stdout)) == sorted([KFD, *GPU_0])
    assert runtime("kill", "c1", "KILL").returncode == 0
    while json.loads(runtime("state", "c1").stdout)["status"] != "stopped":
        pass
    assert runtime("delete", "c1").returncode == 0
    assert runtime("state", "c1").returncode != 0


def test_a_bundle_that_comes_again_is_given_nothing_twice(runtime):
    bundle = runtime.bundle("c1", "0", ["list-gpus"])

    first = runtime("run", "--bundle", bundle, "c1").stdout
    edited = (bundle / "config.json").read_bytes()
    again = runtime("run", "--bundle", bundle, "c2").stdout

    assert first == again
    assert (bundle / "config.json").read_bytes() == edited


def test_a_kfd_that_the_bundle_brings_is_kept(runtime):
    theirs = {"path": "/dev/kfd", "type": "c", "major": 511, "minor": 0, "fileMode": 0o640, "uid": 7, "gid": 8}

    seen = parse_seen(runtime.run("0", "list-gpus", user=7, devices=[theirs]))

    assert seen[0] == SeenNode("/dev/kfd", "511:0", "640", "7:8", "opens")


def test_a_refusal_is_one_sentence_on_stderr_and_one_line_of_the_log(runtime):
    bundle = runtime.bundle("c1", "8", ["true"])
    before = (bundle / "config.json").read_bytes()

    ended = runtime("run", "--bundle", bundle, "c1")

    sentence = (
        "amd-container-runtime: AMD_VISIBLE_DEVICES=8: "
        "GPU 8 does not exist, this host has GPUs 0-7 ('amd-ctk gpu list' shows them)"
    )
    assert (ended.returncode != 0, ended.stdout, ended.stderr) == (True, "", f"{sentence}\n")
    assert [(line["level"], line["msg"]) for line in map(json.loads, runtime.log.read_text().splitlines())] == [
        ("error", sentence)
    ]
    assert (bundle / "config.json").read_bytes() == before


def test_a_bundle_on_a_read_only_file_system_is_refused_with_its_path(runtime):
    bundle = runtime.bundle("c1", "0", ["true"])
    subprocess.run(["mount", "--bind", "-o", "ro", bundle, bundle], check=True)
    try:
        ended = runtime("run", "--bundle", bundle, "c1")
    finally:
        subprocess.run(["umount", bundle], check=True)

    assert ended.returncode != 0
    assert ended.stderr == (
        f"amd-container-runtime: {bundle}/config.json cannot be written: the file system is read-only\n"
    )


def test_the_exit_code_is_the_programs(runtime):
    bundle = runtime.bundle("c1", "0", ["sh", "-c", "exit 42"])

    assert runtime("run", "--bundle", bundle, "c1").returncode == 42


def test_help_is_that_of_the_low_level_runtime(runtime, low_level):
    theirs = subprocess.run([low_level, "--help"], capture_output=True, text=True, check=True).stdout

    assert runtime("--help").stdout.endswith(theirs)


def test_doctor_tells_a_container_that_was_never_started(runtime, tmp_path):
    bundle = runtime.bundle("c1", "0", ["sleep", "600"])
    assert runtime("create", "--bundle", bundle, "c1").returncode == 0
    container = RunningContainer(
        container_id="c1", root=str(tmp_path / "state"), bundle=str(bundle), init=Processes().myself()
    )

    created = find_unstarted([container], Host(), seconds=0)
    runtime("start", "c1")

    assert [(each.container_id, each.path) for each in created] == [("c1", "/dev/dri/renderD128")]
    assert find_unstarted([container], Host(), seconds=0) == ()
