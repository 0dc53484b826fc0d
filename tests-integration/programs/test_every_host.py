"""Every program as a process, on every simulated host: what is said, what is written and how it ends."""

from __future__ import annotations

import json
import os


def test_every_profile_is_served(bare_machine, profile):
    listed = bare_machine.python("-m", "amdgpu_simulator", "list").stdout

    assert profile in listed.split()


def test_a_container_gets_every_gpu_starts_runs_and_ends(machine, gpu_count):
    created = machine.create("all")

    assert (created.returncode, created.stdout, created.stderr) == (0, "", "")
    spec = machine.calls[0]["config"]
    nodes = [device["path"] for device in spec["linux"]["devices"]]
    assert len(set(nodes)) == len(nodes)
    assert sum(node.startswith("/dev/dri/renderD") for node in nodes) == gpu_count
    assert nodes.count("/dev/kfd") == 1
    rules = [rule for rule in spec["linux"]["resources"]["devices"] if rule["allow"]]
    assert sorted((rule["major"], rule["minor"]) for rule in rules) == sorted(
        (device["major"], device["minor"]) for device in spec["linux"]["devices"]
    )
    pid = int((machine.directory / "pid").read_text())
    assert json.loads(machine.runtime("state", "c1").stdout) | {"annotations": {}} == {
        "ociVersion": "1.2.0",
        "id": "c1",
        "pid": pid,
        "status": "created",
        "bundle": str(machine.bundle),
        "annotations": {},
    }

    assert machine.runtime("start", "c1").returncode == 0
    assert machine.runtime("kill", "c1", "KILL").returncode == 0
    while json.loads(machine.runtime("state", "c1").stdout)["status"] != "stopped":
        pass
    assert machine.runtime("delete", "c1").returncode == 0
    assert machine.runtime("state", "c1").stderr == "runc: container does not exist\n"


def test_the_last_gpu_is_one_gpu(machine, gpu_count):
    assert machine.create(str(gpu_count - 1)).returncode == 0

    devices = machine.calls[0]["config"]["linux"]["devices"]
    assert sum(device["path"].startswith("/dev/dri/renderD") for device in devices) == 1
    assert {device["path"]: device["fileMode"] for device in devices}["/dev/kfd"] == 0o666


def test_a_gpu_too_many_is_refused_and_runc_never_called(machine, gpu_count):
    refused = machine.create(f"0,{gpu_count}")

    exist = "GPU 0" if gpu_count == 1 else f"GPUs 0-{gpu_count - 1}"
    assert refused.returncode != 0
    assert refused.stderr == (
        f"amd-container-runtime: AMD_VISIBLE_DEVICES=0,{gpu_count}: GPU {gpu_count} does not exist,"
        f" this host has {exist} ('amd-ctk gpu list' shows them)\n"
    )
    assert machine.calls == []


def test_amd_ctk_lists_as_many_gpus_as_the_runtime_gives(machine, gpu_count):
    listed = machine("amd-ctk", "gpu", "list", "--json")

    gpus = json.loads(listed.stdout)["gpus"]
    assert len(gpus) == gpu_count
    assert machine("amd-ctk", "gpu", "list").stdout.startswith(f"Found {gpu_count} AMD GPU device")


def test_a_cdi_spec_is_written_valid_and_removed(machine, gpu_count):
    spec = machine.root / "etc/cdi/amd.json"

    assert machine("amd-ctk", "cdi", "generate").stdout == "Generated CDI spec: /etc/cdi/amd.json\n"
    names = {device["name"] for device in json.loads(spec.read_text())["devices"]}
    assert {*map(str, range(gpu_count)), "all"} <= names
    assert machine("amd-ctk", "cdi", "validate").returncode == 0
    assert "amd.com/gpu=all" in machine("amd-ctk", "cdi", "list").stdout.splitlines()
    assert machine("amd-ctk", "cdi", "remove").returncode == 0
    assert not spec.exists()


def test_docker_is_configured_and_left_as_it_was(machine):
    daemon_json = machine.root / "etc/docker/daemon.json"
    daemon_json.parent.mkdir(parents=True, exist_ok=True)
    daemon_json.write_text('{"log-driver": "local"}\n')

    assert machine("amd-ctk", "runtime", "configure").returncode == 0
    configured = json.loads(daemon_json.read_text())
    assert machine("amd-ctk", "runtime", "configure", "--remove").returncode == 0

    assert configured["log-driver"] == "local"
    assert os.path.basename(configured["runtimes"]["amd"]["path"]) == "amd-container-runtime"
    assert daemon_json.read_text() == '{"log-driver": "local"}\n'


def test_an_exclusive_gpu_is_given_once_until_its_container_is_gone(machine):
    assert machine("amd-ctk", "gpu-tracker", "enable").stdout == "GPU Tracker has been enabled\n"
    assert machine("amd-ctk", "gpu-tracker", "0", "exclusive").stdout == "GPUs [0] have been made exclusive\n"

    assert machine.create("0").returncode == 0
    assert "Exclusive" in machine("amd-gpu-tracker", "status").stdout
    refused = machine.create("0", "c2")
    machine.runtime("delete", "--force", "c1")
    again = machine.create("0", "c2")

    assert refused.returncode != 0
    assert "GPUs [0] are exclusive and already in use" in refused.stderr
    assert again.returncode == 0


def test_both_programs_show_the_same_tracker(machine):
    machine("amd-gpu-tracker", "enable")

    assert machine("amd-ctk", "gpu-tracker", "status").stdout == machine("amd-gpu-tracker", "status").stdout != ""


def test_a_host_can_be_recorded_and_built_again(machine, gpu_count, tmp_path):
    profile = tmp_path / "recorded.json"

    assert machine.python("-m", "amdgpu_simulator", "record", profile).returncode == 0
    machine.python("-m", "amdgpu_simulator", "build", profile, tmp_path / "again")
    machine.environment["AMD_CTK_HOST_ROOT"] = str(tmp_path / "again")

    assert len(json.loads(machine("amd-ctk", "gpu", "list", "--json").stdout)["gpus"]) == gpu_count


def test_without_a_driver_gpus_are_refused_and_everything_else_runs(bare_machine):
    refused = bare_machine.create("all")

    assert refused.returncode != 0
    assert refused.stderr == (
        "amd-container-runtime: amdgpu driver unavailable: /sys/module/amdgpu/drivers/ does not exist"
        " (load it with 'sudo modprobe amdgpu', or install it)\n"
    )
    assert bare_machine.create("none").returncode == 0
    assert bare_machine("amd-ctk", "gpu", "list").returncode != 0
    assert bare_machine("amd-ctk", "cdi", "generate").returncode != 0
    assert bare_machine("amd-ctk", "version").stdout.startswith("Version: v2.")
