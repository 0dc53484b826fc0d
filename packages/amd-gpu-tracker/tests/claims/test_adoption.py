"""Containers that run already are found when the tracker is enabled or reset."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest

from amd_gpu_tracker.claims import adoption
from amd_gpu_tracker.errors import GpusRefused

RULE = {"allow": True, "type": "c", "major": 226, "access": "rwm"}


def enabled(machine):
    """Enable the tracker and return what it says."""
    told = []
    assert machine.tracker.enable(tell=told.append) is True
    return told


def test_a_container_that_runs_already_keeps_its_gpus_from_others(untracked):
    init = untracked.run_untracked("c1", 0, 2)
    untracked.run_untracked("none")

    assert enabled(untracked) == ["container c1 is running and uses GPUs [0 2]"]

    assert untracked.users() == {0: ["c1"], 1: [], 2: ["c1"], 3: []}
    assert untracked.tracker.set_accessibility("0", exclusive=True).changed == (0,)
    with pytest.raises(GpusRefused):
        untracked.create("c2", [0])
    untracked.kill(init)
    untracked.create("c2", [0])
    assert untracked.users()[0] == ["c2"]


def test_a_container_that_starts_before_cdi_specs_have_hooks_is_found(untracked):
    def write_hooks():
        untracked.run_untracked("c1", 0)

    untracked.tracker.enable(when_enabled=write_hooks)

    assert untracked.users()[0] == ["c1"]


def test_an_adopted_container_has_its_gpus_since_its_start(untracked):
    untracked.run_untracked("c1", 0)

    before = time.time()
    enabled(untracked)

    (use,) = untracked.tracker.status().gpus[0].containers
    assert use.ways == ("adopted",)
    assert before - 60 < use.since <= time.time()
    assert use.bundle == str(untracked.directory / "bundles" / "c1")


def test_disabling_and_enabling_again_finds_what_runs(machine):
    machine.run_untracked("c1", 1)

    machine.tracker.disable()

    assert enabled(machine) == ["container c1 is running and uses GPUs [1]"]
    assert machine.users()[1] == ["c1"]


def test_a_reset_finds_what_runs(machine):
    machine.run_untracked("c1", 1)
    told = []

    machine.tracker.reset(tell=told.append)

    assert told == ["container c1 is running and uses GPUs [1]"]
    assert machine.users()[1] == ["c1"]
    machine.tracker.disable()
    machine.tracker.reset(tell=told.append)
    assert len(told) == 1


def test_state_of_version_1_is_taken_over_with_the_containers_that_run(untracked):
    untracked.run_untracked("c1", 0)
    os.makedirs(untracked.host.path("/var/log"), exist_ok=True)
    gpu = {"uuid": "0xEA35F57CC80DEB35", "accessibility": 1, "containerIds": []}
    with open(untracked.host.path("/var/log/gpu-tracker.json"), "w") as file:
        json.dump({"enabled": True, "gpusStatus": {"0": gpu}}, file)

    untracked.tracker.initialize()

    with pytest.raises(GpusRefused):
        untracked.create("c2", [0])


@pytest.mark.parametrize(
    ("root", "shown"),
    [
        ("/run/runc", ""),
        ("/run/docker/runtime-runc/moby", "/run/docker/runtime-runc/moby"),
        ("/run/containerd/runc/k8s.io", "/run/containerd/runc/k8s.io"),
    ],
)
def test_usual_directories_of_state_are_looked_at(untracked, root, shown):
    untracked.run_untracked("c1", 3, root=root)

    enabled(untracked)

    (use,) = untracked.tracker.status().gpus[3].containers
    assert use.root == (untracked.host.path(shown) if shown else "")


def test_crun_is_understood(untracked):
    init = untracked.start_process()
    untracked.run_untracked("c1", 1)
    state = untracked.host.path("/run/crun/c2")
    os.makedirs(state)
    bundle = str(untracked.directory / "bundles" / "c1")
    fields = {"pid": init, "process-start-time": untracked.processes.find(init).start, "bundle": bundle}
    with open(f"{state}/status", "w") as file:
        json.dump(fields, file)
    os.chmod(f"{state}/status", 0o600)

    enabled(untracked)

    assert sorted(untracked.users()[1]) == ["c1", "c2"]


def test_a_rule_for_the_device_cgroup_counts(untracked):
    untracked.run_untracked("c1", linux={"resources": {"devices": [{**RULE, "minor": 131}]}, "namespaces": []})

    assert enabled(untracked) == ["container c1 is running and uses GPUs [1]"]


def test_a_privileged_container_is_shown_and_claims_nothing(untracked):
    resources = {"devices": [{"allow": True, "access": "rwm"}]}
    process = {"capabilities": {"bounding": ["CAP_SYS_ADMIN"]}}
    untracked.run_untracked("c1", linux={"resources": resources, "namespaces": []}, process=process)

    assert enabled(untracked) == []

    status = untracked.tracker.status()
    assert [use.container_id for use in status.privileged] == ["c1"]
    assert untracked.users() == {0: [], 1: [], 2: [], 3: []}


def test_an_ended_container_is_not_adopted(untracked):
    untracked.kill(untracked.run_untracked("c1", 0))
    zombie = untracked.run_untracked("c2", 0)
    untracked.start_process(zombie, state="Z")
    another = untracked.run_untracked("c3", 0)
    untracked.start_process(another, seconds_ago=-60)

    assert enabled(untracked) == []
    assert untracked.users()[0] == []


def test_a_container_that_claimed_for_itself_meanwhile_is_not_adopted_a_second_time(machine):
    directory = "/run/docker/runtime-runc/moby"
    machine.run_untracked("c1", 0, root=directory)
    machine.claim("c1", [0, 1], creator=machine.start_process(), root=machine.host.path(directory))
    told = []

    adoption.adopt_running(machine.book, told.append, since=0.0)

    assert told == []
    assert machine.users() == {0: ["c1"], 1: ["c1"], 2: [], 3: []}


def test_a_bundle_that_cannot_be_read_is_reported(untracked):
    untracked.run_untracked("broken", 0)
    untracked.run_untracked("gone", 0)
    untracked.run_untracked("open", 0)
    bundles = untracked.directory / "bundles"
    (bundles / "broken" / "config.json").write_text("[]")
    (bundles / "gone" / "config.json").unlink()
    (bundles / "open" / "config.json").chmod(0o666)

    begin = "is running, but its GPUs are not known:"
    assert enabled(untracked) == [
        f"container broken {begin} {bundles}/broken/config.json is not a JSON object; restart it",
        f"container gone {begin} {bundles}/gone/config.json cannot be read: it does not exist; restart it",
        (
            f"container open {begin} {bundles}/open/config.json cannot be read: others may write it, or it is not a"
            " plain file; restart it"
        ),
    ]


class TestEnginesThatSayWhereTheirContainersAre:
    """Monitors with unusual directories, and whose word counts."""

    @pytest.fixture
    def elsewhere(self, untracked):
        """Return the directory of a runtime's state in which a container with GPU 0 runs."""
        untracked.run_untracked("c1", 0, root=str(untracked.directory / "state" / "moby"))
        return str(untracked.directory / "state")

    @pytest.fixture
    def shim_bundle(self, untracked, elsewhere):
        bundle = untracked.directory / "shim"
        bundle.mkdir()
        (bundle / "options.json").write_text(json.dumps({"root": elsewhere}))
        return str(bundle)

    SHIM = ("/usr/bin/containerd-shim-runc-v2", "/usr/bin/containerd-shim-runc-v2", "-namespace", "moby", "-id", "c1")

    def test_a_shim_says_it_in_its_options(self, untracked, shim_bundle):
        untracked.start_program(*self.SHIM, cwd=shim_bundle)

        assert enabled(untracked) == ["container c1 is running and uses GPUs [0]"]

    def test_a_shim_that_was_upgraded_counts(self, untracked, shim_bundle):
        untracked.start_program(f"{self.SHIM[0]} (deleted)", *self.SHIM[1:], cwd=shim_bundle)

        assert len(enabled(untracked)) == 1

    @pytest.mark.parametrize("words", [("--runtime-arg", "--root={}/moby"), ("--runtime-arg=--root={}/moby",)])
    def test_conmon_says_it_to_its_runtime(self, untracked, elsewhere, words):
        untracked.start_program("/usr/bin/conmon", "conmon", "-c", "c1", *(word.format(elsewhere) for word in words))

        assert len(enabled(untracked)) == 1

    def test_conmon_says_it_in_two_words(self, untracked, elsewhere):
        words = ("--runtime-arg", "--root", "--runtime-arg", f"{elsewhere}/moby")
        untracked.start_program("/usr/bin/conmon", "conmon", *words)

        assert len(enabled(untracked)) == 1

    def test_a_runtime_that_waits_for_its_container_says_it(self, untracked, elsewhere):
        untracked.start_program("/usr/sbin/runc", "runc", "--root", f"{elsewhere}/moby", "run", "c1")

        assert len(enabled(untracked)) == 1

    def test_of_two_ways_to_one_directory_the_engines_own_counts(self, untracked, elsewhere):
        os.symlink(elsewhere, untracked.directory / "link")
        words = ("--root", f"{untracked.directory}/link/moby", "run", "c1")
        untracked.start_program("/usr/sbin/runc", "runc", *words)

        enabled(untracked)

        (use,) = untracked.tracker.status().gpus[0].containers
        assert use.root == f"{untracked.directory}/link/moby"

    @pytest.mark.parametrize("uids", ["40001\t40001\t40001\t40001", "40001\t{me}\t{me}\t{me}"])
    def test_a_shim_of_a_user_is_reported_and_its_containers_are_not_tracked(self, untracked, shim_bundle, uids):
        untracked.start_program(*self.SHIM, cwd=shim_bundle, uids=uids.format(me=os.geteuid()))

        assert enabled(untracked) == [
            "the running containers of user 40001 (1) are not tracked; restart those with GPUs"
        ]

    def test_a_process_that_only_has_the_name_of_a_shim_makes_no_container(self, untracked, shim_bundle):
        untracked.start_program("/usr/bin/sleep", *self.SHIM[1:], cwd=shim_bundle)

        assert enabled(untracked) == []

    def test_an_engine_that_sees_other_files_is_reported_and_not_used(self, untracked, shim_bundle):
        untracked.start_program(*self.SHIM, cwd=shim_bundle, mounts="mnt:[2]")

        assert enabled(untracked) == [
            (
                "the running containers of an engine in another mount or user namespace (1) are not tracked;"
                " restart those with GPUs"
            )
        ]

    def test_engines_of_other_hosts_are_their_own(self, untracked, shim_bundle):
        untracked.start_program(*self.SHIM, cwd=shim_bundle, AMD_CTK_HOST_ROOT="/somewhere/else")

        assert enabled(untracked) == []

    def test_a_crowd_of_users_does_not_fill_the_screen(self, untracked):
        for uid in range(1001, 1021):
            untracked.start_program("/usr/bin/conmon", "conmon", uids="\t".join([str(uid)] * 4))

        told = enabled(untracked)

        assert (len(told), told[-1]) == (9, "nor are those of 12 more users")


class TestContainersThatAreJustBeingMade:
    """Who read the policy before it was written claims nothing, and is waited for."""

    RUNC = ("/usr/sbin/runc", "runc", "create", "--bundle", "/b", "c1")

    def test_their_lease_comes_when_they_run(self, untracked):
        creator = untracked.start_program(*self.RUNC)

        def finish():
            untracked.run_untracked("c1", 0)
            untracked.kill(creator)

        timer = threading.Timer(0.2, finish)
        timer.start()
        told = enabled(untracked)
        timer.join()

        assert told == ["container c1 is running and uses GPUs [0]"]
        assert untracked.users()[0] == ["c1"]

    def test_a_creation_that_fails_is_not_waited_for(self, untracked):
        creator = untracked.start_program(*self.RUNC)
        timer = threading.Timer(0.2, untracked.kill, [creator])
        timer.start()

        assert enabled(untracked) == []
        timer.join()

    def test_a_creation_that_never_ends_is_reported(self, untracked, monkeypatch):
        monkeypatch.setattr(adoption, "CREATION_TIMEOUT_SECONDS", 0.1)
        creator = untracked.start_program(*self.RUNC)

        assert enabled(untracked) == [
            f"container c1 is still being made by process {creator}, but its GPUs are not known; restart it"
        ]

    @pytest.mark.parametrize(
        ("program", "words"),
        [
            ("/usr/bin/docker", ("docker", "run", "--bundle", "x")),
            ("/usr/sbin/runc", ("runc", "delete", "--bundle", "x", "c1")),
            ("/usr/sbin/runc", ("runc", "create", "c1")),
        ],
    )
    def test_other_programs_are_not_waited_for(self, untracked, program, words):
        untracked.start_program(program, *words)

        assert enabled(untracked) == []

    def test_the_amd_runtime_counts_before_it_becomes_runc(self, untracked, monkeypatch):
        monkeypatch.setattr(adoption, "CREATION_TIMEOUT_SECONDS", 0.1)
        code = ("python3", "-I", "-S", "-B", "-c", "code", "/usr/lib", "/usr/bin/amd-container-runtime")
        untracked.start_program("/usr/bin/python3", *code, "--root", "/r", "create", "--bundle=/b", "c1")

        assert len(enabled(untracked)) == 1

    def test_a_runtime_that_runs_its_container_in_the_foreground_is_done(self, untracked):
        untracked.run_untracked("c1", 0)
        untracked.start_program("/usr/sbin/runc", "runc", "run", "--bundle", "/b", "c1")

        assert enabled(untracked) == ["container c1 is running and uses GPUs [0]"]
