"""A lease lives exactly as long as its container's processes, whatever dies around them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest


@pytest.fixture
def tracked(engine):
    """Return the engine with the tracker enabled and GPU 0 exclusive."""
    engine.ctk("gpu-tracker", "enable")
    engine.ctk("gpu-tracker", "0", "exclusive")
    return engine


def test_a_stopped_container_gives_its_gpus_back_at_once(tracked):
    tracked.run("c1", "0")
    assert tracked.leases() == ["c1"]

    tracked.remove("c1")

    assert tracked.leases() == []


def test_a_container_killed_with_nobody_to_notice_blocks_nobody(tracked):
    tracked.run("c1", "0")

    os.kill(tracked.init_of("c1"), signal.SIGKILL)

    assert tracked.run("c2", "0") == ""
    assert tracked.users()[0] == ["c2"]


def test_a_paused_container_keeps_its_gpus(tracked):
    tracked.run("c1", "0")

    os.kill(tracked.init_of("c1"), signal.SIGSTOP)

    assert "already in use" in tracked.run("c2", "0")


def test_a_failed_create_leaves_nothing(tracked):
    told = tracked.run("c1", "0", annotations={"stand-in-runc/fail": "yes"})

    assert told == "unable to start container process: as the bundle asked"
    assert tracked.run("c2", "0") == ""


def test_a_second_create_of_a_living_id_is_runcs_to_refuse(tracked):
    tracked.run("c1", "0")
    before = (tracked.bundles / "c1" / "config.json").read_bytes()

    process = tracked.create("c1")

    assert process.wait() == 1
    assert "container with given ID already exists" in (tracked.bundles / "c1" / "log.json").read_text()
    assert tracked.users()[0] == ["c1"]
    assert (tracked.bundles / "c1" / "config.json").read_bytes() == before


@pytest.mark.parametrize("words", [("state", "nobody"), ("exec", "nobody", "true"), ("kill", "nobody", "9")])
def test_calls_that_fail_release_nothing(tracked, words):
    tracked.run("c1", "0")

    tracked.call(*words).wait()
    tracked.call(words[0], "c1", "no-such-signal").wait()

    assert tracked.users()[0] == ["c1"]


def test_a_runtime_killed_before_it_became_runc_blocks_nobody(tracked):
    runc = tracked.runc.read_text()
    # A runc that never comes to life, so that the creator is killed right behind the claim.
    tracked.runc.write_text("#!/bin/sh\nexec sleep 60\n")
    tracked.prepare("c1", "0")
    creator = tracked.create("c1")
    wait_for(lambda: tracked.leases() == ["c1"])
    assert tracked.users()[0] == ["c1"]

    creator.kill()
    creator.wait()

    assert tracked.users()[0] == []
    tracked.runc.write_text(runc)
    assert tracked.run("c2", "0") == ""


def test_a_restarted_container_claims_again_and_may_be_too_late(tracked):
    tracked.run("c1", "0")
    tracked.remove("c1")
    assert tracked.start("c1") == ""
    tracked.remove("c1")
    tracked.run("c2", "0")

    assert tracked.start("c1") == (
        "amd-container-runtime: GPUs [0] are exclusive and already in use\nGPU 0 is in use by container c2"
    )


def test_a_foreground_run_holds_its_gpus_to_the_end(tracked):
    bundle = tracked.prepare("c1", "0")
    running = tracked.call("run", "--bundle", bundle, "c1")
    # It has its GPUs before it runs.
    state = tracked.root / "c1"
    wait_for(lambda: (state / "state.json").exists() and not (state / "exec.fifo").exists())
    assert tracked.users()[0] == ["c1"]

    assert tracked.call("kill", "c1", "9").wait() == 0
    running.wait()

    assert tracked.leases() == []


def test_a_detached_run_without_a_pid_file_is_known_by_the_runtimes_state(tracked):
    bundle = tracked.prepare("c1", "0")
    tracked.call("run", "--detach", "--bundle", bundle, "c1").wait()

    assert tracked.users()[0] == ["c1"]

    tracked.remove("c1")
    assert tracked.leases() == []


def test_disabled_tracking_adds_no_hook_and_writes_nothing(engine):
    engine.run("c1", "0")
    engine.ctk("gpu-tracker", "enable")
    engine.run("c2", "0")

    hooks = {
        name: json.loads((engine.bundles / name / "config.json").read_text()).get("hooks") for name in ("c1", "c2")
    }
    assert hooks["c1"] is None
    assert [hook["args"][1].rpartition("/")[2] for hook in hooks["c2"]["poststop"]] == ["release.sh"]
    assert engine.users()[0] == ["c2"]


def test_gpus_given_by_device_nodes_are_claimed_too(tracked):
    nodes = nodes_of(tracked, 0)

    assert tracked.run("c1", None, linux={"devices": nodes, "namespaces": [{"type": "pid"}]}) == ""
    assert "already in use" in tracked.run("c2", None, linux={"devices": nodes})
    assert "already in use" in tracked.run("c3", "0")


def test_a_rule_for_the_device_cgroup_is_no_way_around_a_reservation(tracked):
    tracked.run("c1", "0")
    rule = {"allow": True, "type": "c", "major": 226, "access": "rwm"}

    every_gpu = tracked.run("c2", None, linux={"resources": {"devices": [{**rule, "minor": -1}]}})
    gpu_0 = tracked.run("c3", None, linux={"resources": {"devices": [{**rule, "minor": 130}]}})
    gpu_1 = tracked.run("c4", None, linux={"resources": {"devices": [{**rule, "minor": 131}]}})

    assert "GPUs [1 2 3] allocated\nGPUs [0] are exclusive and already in use" in every_gpu
    assert "GPUs [0] are exclusive and already in use" in gpu_0
    assert gpu_1 == ""
    assert tracked.users() == {0: ["c1"], 1: ["c4"], 2: [], 3: []}


def test_privileged_containers_that_ask_for_nothing_claim_nothing(tracked):
    tracked.run("c1", "0")
    linux = {"devices": nodes_of(tracked, 0), "resources": {"devices": [{"allow": True, "access": "rwm"}]}}
    process = {"args": ["sh"], "env": [], "capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}

    assert tracked.run("c2", None, process=process, linux=linux) == ""
    assert tracked.users()[0] == ["c1"]


def test_a_capability_is_no_way_around_a_reservation(tracked):
    tracked.run("c1", "0")
    process = {"args": ["sh"], "env": [], "capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}

    answer = tracked.run("c2", None, process=process, linux={"devices": nodes_of(tracked, 0)})

    assert "already in use" in answer
    assert tracked.users()[0] == ["c1"]


class TestCdi:
    """Containers that an engine gave GPUs by our CDI spec, under a runc that knows nothing of us."""

    @pytest.fixture
    def run_with(self, tracked):
        """Return a function that runs a container with CDI devices as an engine edits its spec."""
        tracked.ctk("cdi", "generate")
        with open(f"{tracked.environment['AMD_CTK_HOST_ROOT']}/etc/cdi/amd.json") as file:
            cdi = json.load(file)

        def run(container_id, *numbers, runtime=tracked.runc, gpus=None):
            by_name = {device["name"]: device["containerEdits"] for device in cdi["devices"]}
            devices = [node for number in numbers for node in by_name[str(number)]["deviceNodes"]]
            hooks = {}
            for hook in cdi.get("containerEdits", {}).get("hooks", []):
                entry = {key: hook[key] for key in ("path", "args", "timeout")}
                hooks.setdefault(hook["hookName"], []).append(entry)
            linux = {"devices": devices, "namespaces": [{"type": "pid"}]}
            return tracked.run(container_id, gpus, runtime=runtime, linux=linux, hooks=hooks)

        return run

    def test_a_cdi_container_claims_its_gpus_is_shown_and_gives_them_back(self, tracked, run_with):
        assert run_with("c1", 0, 2) == ""
        assert tracked.users() == {0: ["c1"], 1: [], 2: ["c1"], 3: []}
        assert [line.split()[-1] for line in tracked.ctk("gpu-tracker", "status", "--wide").splitlines()[3:4]] == [
            "cdi"
        ]

        tracked.remove("c1", tracked.runc)

        assert tracked.leases() == []

    def test_a_cdi_container_is_refused_gpus_that_either_way_has_taken(self, tracked, run_with):
        run_with("c1", 0)
        assert "GPUs [0] are exclusive and already in use" in run_with("c2", 0)
        assert "GPUs [0] are exclusive and already in use" in tracked.run("c3", "0")
        tracked.remove("c1", tracked.runc)
        tracked.run("c3", "0")

        told = run_with("c2", 0, 1)

        assert "GPUs [1] allocated\nGPUs [0] are exclusive and already in use\nReleased GPUs [1]" in told
        assert "GPU 0 is in use by container c3" in tracked.ctk("gpu-tracker", "refused")
        assert tracked.leases() == ["c3"]

    def test_both_ways_at_once_are_one_lease(self, tracked, run_with):
        assert run_with("c1", 0, runtime=tracked.amd, gpus="1") == ""

        assert tracked.leases() == ["c1"]
        assert tracked.users() == {0: ["c1"], 1: ["c1"], 2: [], 3: []}
        tracked.remove("c1")
        assert tracked.leases() == []

    def test_killing_the_container_is_enough(self, tracked, run_with):
        run_with("c1", 0)

        os.kill(tracked.init_of("c1"), signal.SIGKILL)

        assert tracked.run("c2", "0") == ""

    def test_switching_the_tracker_keeps_the_spec_in_step(self, tracked, run_with):
        path = f"{tracked.environment['AMD_CTK_HOST_ROOT']}/etc/cdi/amd.json"

        def hook_names():
            with open(path) as file:
                return [hook["hookName"] for hook in json.load(file).get("containerEdits", {}).get("hooks", [])]

        assert hook_names() == ["createRuntime", "poststop"]
        tracked.ctk("gpu-tracker", "disable")
        # It checks what images require.
        assert hook_names() == ["createRuntime"]
        tracked.ctk("gpu-tracker", "enable")
        assert hook_names() == ["createRuntime", "poststop"]


def nodes_of(engine, number):
    """Return the nodes of a GPU as `docker run --device` lists them."""
    listed = json.loads(engine.ctk("gpu", "list", "--json"))["gpus"][number]
    return [{"type": "c", **listed[name]} for name in ("card_node", "render_node")]


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.02)


def test_status_waits_for_no_stuck_holder_of_the_lock_and_the_holder_is_known(tracked):
    from amdgpu_discovery.usage.lock_holder import read_lock_holder

    lock = f"{tracked.environment['AMD_CTK_HOST_ROOT']}/run/amd-container-toolkit/gpu-tracker.lock"
    holder = subprocess.Popen(["flock", lock, "sleep", "60"], start_new_session=True)
    try:
        wait_for(lambda: read_lock_holder(lock) == holder.pid)
        assert tracked.ctk("gpu-tracker", "status").startswith("-----")
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
