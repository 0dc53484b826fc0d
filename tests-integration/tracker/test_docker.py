"""The GPU Tracker with a real Docker engine: the guide, races, and everything that can die around a container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.docker import IMAGE, OWN_NETWORK, Docker
from support.installed import our_program, require_root
from support.simulated import run_amd_ctk

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

RACES = 50
RULE = "-" * 120
UUIDS = ("0xEA35F57CC80DEB35", "0x89CAA15875FF5A43", "0x6E32F10EFC982B4C", "0x12FE4F7FDAF06B9")
S, X = "Shared", "Exclusive"


class TrackedDocker:
    """A Docker engine that serves four simulated MI210, and the commands of the GPU Tracker for that host."""

    def __init__(self, docker, host):
        self.docker = docker
        self.host = host

    def tracker(self, *words):
        return run_amd_ctk(self.host.root, "gpu-tracker", *words)

    def run(self, gpus, *options, command=("sleep", "600")):
        """Run a container in the background; return its id, or what Docker says when it does not start."""
        asking = ("--interactive", "--tty", "--detach", "--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={gpus}")
        ended = self.docker("run", *asking, *options, IMAGE, *command, check=False)
        return ended.stdout.strip() if ended.returncode == 0 else ended.stderr

    def users(self):
        status = json.loads(self.tracker("status", "--json"))
        return {gpu["number"]: [use["container_id"] for use in gpu["containers"]] for gpu in status["gpus"]}

    def leases(self):
        directory = self.host.path("/run/amd-container-toolkit/leases")
        return sorted(name.partition("@")[0] for name in os.listdir(directory))

    def init_of(self, container):
        pid = int(self.docker("inspect", "--format={{.State.Pid}}", container).stdout)
        assert pid > 1
        return pid

    def kill_daemons(self, *names):
        """Kill dockerd, containerd or both, so that nobody is told of anything; then stop what is left of them."""
        for name in names or ("dockerd", "containerd"):
            daemon = getattr(self.docker, name)
            daemon.kill()
            daemon.wait()
        self.seen_without_daemons = self.users()
        self.docker.halt()


@pytest.fixture(scope="module")
def engines(start_docker, tmp_path_factory):
    """Return a function that starts an engine with these settings on a host of its own, once."""
    made = {}

    def engine(**settings):
        key = tuple(sorted(settings))
        if key not in made:
            host = build_host(tmp_path_factory.mktemp("tracked") / "host", "mi210-4", bare=True)
            made[key] = TrackedDocker(start_docker(host.root, **settings), host)
        return made[key]

    return engine


@pytest.fixture
def engine(engines):
    """Return the engine with an enabled tracker and no container; GPU 0 is exclusive."""
    yield begin(engines())
    end(engines())


@pytest.fixture
def live_restore(engines):
    """Return an engine whose containers outlive it."""
    settings = {"live-restore": True}
    yield begin(engines(**settings))
    end(engines(**settings))


def begin(engine):
    engine.tracker("enable")
    engine.tracker("reset")
    engine.tracker("0", "exclusive")
    return engine


def end(engine):
    containers = engine.docker("ps", "-aq").stdout.split()
    if containers:
        engine.docker("rm", "-f", *containers)


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.05)


def table(*rows):
    """Return the guide's table; a row is an accessibility and the containers of a GPU."""
    text = f"{RULE}\nGPU Id    UUID                     Accessibility       Container Ids\n{RULE}\n"
    for number, (accessibility, *containers) in enumerate(rows):
        first, *others = containers or ["-"]
        text += f"{number:<10}{UUIDS[number]:<25}{accessibility:<20}{first}\n"
        text += "".join(f"{'':<55}{other}\n" for other in others)
    return text


def test_the_guide_with_real_containers(engine):
    tracker = engine.tracker
    tracker("disable")
    assert tracker("status") == "GPU Tracker is disabled\n"
    assert tracker("enable") == "GPU Tracker has been enabled\n"
    assert tracker("enable") == "GPU Tracker is already enabled\n"

    first = engine.run("0-2")
    second = engine.run("1,3")
    assert tracker("status") == table((S, first), (S, first, second), (S, first), (S, second))
    engine.docker("rm", "-f", first)
    assert tracker("status") == table((S,), (S, second), (S,), (S, second))

    assert tracker("1-3", "exclusive") == "GPUs [1 2 3] have been made exclusive\n"
    refused = engine.run("0-2", "--name=funny_gagarin")
    container = engine.docker("inspect", "--format={{.Id}}", "funny_gagarin").stdout.strip()
    assert (
        "OCI runtime create failed: amd-container-runtime: GPUs [0 2] allocated\n"
        "GPUs [1] are exclusive and already in use\n"
        f"Released GPUs [0 2] used by container {container}\n"
        f"GPU 1 is in use by container {second}"
    ) in refused
    assert engine.docker("inspect", "--format={{.State.Status}}", "funny_gagarin").stdout == "created\n"
    assert tracker("status") == table((S,), (X, second), (X,), (X, second))

    assert tracker("1", "shared") == "GPUs [1] have been made shared\n"
    third = engine.run("0-2")
    assert tracker("status") == table((S, third), (S, second, third), (X, third), (X, second))
    assert tracker("1", "exclusive") == (
        "GPUs [1] have not been made exclusive because more than one container is currently using it\n"
    )
    *adopted, done, advice = tracker("reset").splitlines()
    assert sorted(adopted) == sorted(
        [f"container {second} is running and uses GPUs [1 3]", f"container {third} is running and uses GPUs [0 1 2]"]
    )
    assert done == "GPU Tracker has been reset"
    assert advice.startswith("Since GPU Tracker was enabled, ")
    assert tracker("status") == table((S, third), (S, second, third), (S, third), (S, second))


def test_names_and_times_on_request(engine):
    container = engine.run("0", "--name=practical_williams")

    row = engine.tracker("status", "--wide").splitlines()[3]

    assert row.split()[2:5] == [X, container, "practical_williams"]
    assert row.endswith(" env")


def test_two_containers_race_for_an_exclusive_gpu_and_one_wins(engine):
    for race in range(RACES):
        names = (f"left{race}", f"right{race}")
        command = ["docker", "-H", f"unix://{engine.docker.socket}", "run", "--detach", "--runtime=amd"]
        asking = ["--env=AMD_VISIBLE_DEVICES=0", "--network=none"]
        racers = [
            subprocess.Popen(
                [*command, *asking, f"--name={name}", IMAGE, "sleep", "600"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in names
        ]
        told = [racer.communicate() for racer in racers]

        assert sorted(racer.returncode for racer in racers) == [0, 125]
        (winner,) = [out.strip() for racer, (out, _) in zip(racers, told, strict=True) if racer.returncode == 0]
        (message,) = [error for racer, (_, error) in zip(racers, told, strict=True) if racer.returncode]
        assert f"GPUs [0] are exclusive and already in use\nGPU 0 is in use by container {winner}" in message
        assert engine.users()[0] == [winner]
        engine.docker("rm", "-f", *names)
        assert engine.leases() == []


def test_a_restart_claims_again_and_may_be_too_late(engine):
    first = engine.run("0")
    engine.docker("restart", "--time=0", first)
    assert engine.users()[0] == [first]

    engine.docker("stop", "--time=0", first)
    second = engine.run("0")

    refused = engine.docker("start", first, check=False).stderr
    assert f"GPUs [0] are exclusive and already in use\nGPU 0 is in use by container {second}" in refused


@pytest.mark.parametrize("how", ["ends", "kill -9", "docker kill", "kill -9 of the shim"])
def test_however_a_container_ends_its_gpu_is_free(engine, how):
    container = engine.run("0", command=("sleep", "1") if how == "ends" else ("sleep", "600"))
    if how == "kill -9":
        os.kill(engine.init_of(container), signal.SIGKILL)
    elif how == "docker kill":
        engine.docker("kill", container)
    elif how == "kill -9 of the shim":
        shim = int(Path(f"/proc/{engine.init_of(container)}/stat").read_text().rpartition(")")[2].split()[1])
        assert "containerd-shim" in Path(f"/proc/{shim}/cmdline").read_text()
        os.kill(shim, signal.SIGKILL)

    wait_for(lambda: engine.users()[0] == [])
    wait_for(lambda: engine.leases() == [])
    assert "exclusive" not in engine.run("0")


def test_a_command_that_is_not_there_leaves_nothing(engine):
    assert "not found" in engine.run("0", command=("incorrect_command",))

    assert engine.users()[0] == []
    assert engine.leases() == []


def test_a_paused_container_keeps_its_gpu(engine):
    container = engine.run("0")
    engine.docker("pause", container)

    assert "exclusive and already in use" in engine.run("0")

    engine.docker("unpause", container)


def test_a_container_in_the_hosts_pid_namespace_is_tracked(engine):
    container = engine.run("0", "--pid=host")

    assert engine.users()[0] == [container]

    engine.docker("rm", "-f", container)
    assert engine.leases() == []


@pytest.mark.parametrize("rule", ["c 226:* rwm", "c 226:130 rw", "c *:* rwm", "a *:* rwm"])
def test_a_rule_for_the_device_cgroup_is_no_way_around_a_reservation(engine, rule):
    container = engine.run("0")

    refused = engine.run("none", f"--device-cgroup-rule={rule}")

    assert "GPUs [0] are exclusive and already in use" in refused
    assert engine.users() == {0: [container], 1: [], 2: [], 3: []}


def test_a_rule_for_the_device_cgroup_claims_what_it_opens(engine):
    container = engine.run("none", "--device-cgroup-rule=c 226:129 rwm")

    assert engine.users() == {0: [], 1: [], 2: [container], 3: []}


def test_a_privileged_container_that_asks_for_nothing_claims_nothing(engine):
    container = engine.run("0")

    # Roots of some virtual machines lack capabilities; runc says so, which is after everything that is asked here.
    assert "exclusive" not in engine.run("none", "--privileged", command=("true",))

    assert engine.users() == {0: [container], 1: [], 2: [], 3: []}


def test_a_running_container_is_explained_with_the_exclusive_gpu_that_it_has(engine):
    container = engine.run("0")

    said = run_amd_ctk(engine.host.root, "explain", "--container", container)

    assert said.startswith("AMD_VISIBLE_DEVICES=0  GPU 0\nGPU  in the container ")


def test_a_failing_exec_releases_nothing(engine):
    container = engine.run("0")

    assert engine.docker("exec", container, "no-such-command", check=False).returncode != 0

    assert engine.users()[0] == [container]


@pytest.mark.parametrize("killed", [("dockerd",), ("containerd",), ("dockerd", "containerd")], ids=" and ".join)
def test_containers_that_outlive_their_engine_keep_their_gpus(live_restore, killed):
    engine = live_restore
    container = engine.run("0")

    engine.kill_daemons(*killed)
    assert engine.seen_without_daemons[0] == [container]
    assert engine.users()[0] == [container]

    engine.docker.start()
    assert engine.users()[0] == [container]
    assert "exclusive and already in use" in engine.run("0")
    engine.docker("rm", "-f", container)
    assert engine.leases() == []


def test_a_container_that_dies_while_its_engine_is_down_blocks_nobody(live_restore):
    engine = live_restore
    container = engine.run("0")
    init = engine.init_of(container)
    engine.kill_daemons()

    os.kill(init, signal.SIGKILL)

    wait_for(lambda: engine.users()[0] == [])
    engine.docker.start()
    assert "exclusive" not in engine.run("0")


def test_containers_that_a_new_engine_ends_give_their_gpus_back(engine):
    container = engine.run("0")
    engine.kill_daemons()
    assert engine.users()[0] == [container]

    # Without live-restore dockerd ends what it finds running.
    engine.docker.start()

    wait_for(lambda: engine.leases() == [])
    assert "exclusive" not in engine.run("0")


def test_a_stop_of_the_engine_gives_gpus_back_except_of_containers_that_its_start_restarts(engine):
    again, once = engine.run("0", "--restart=always"), engine.run("1")
    assert [engine.users()[number] for number in (0, 1)] == [[again], [once]]

    engine.docker.halt()
    assert engine.users()[1] == []

    engine.docker.start()
    wait_for(lambda: engine.users()[0] == [again])
    assert engine.users()[1] == []


def test_enabling_adopts_what_runs_and_a_reset_does_too(engine):
    tracker = engine.tracker
    tracker("disable")
    asking = engine.run("0,2")
    by_rule = engine.run("none", "--device-cgroup-rule=c 226:131 rwm", "--pid=host")
    paused = engine.run("2")
    engine.docker("pause", paused)
    engine.run("none")
    engine.docker("rm", "-f", engine.run("3"))
    engine.docker("create", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=3", IMAGE)

    said = tracker("enable").splitlines()

    found = [f"container {asking} is running and uses GPUs [0 2]", f"container {by_rule} is running and uses GPUs [1]"]
    found = sorted([*found, f"container {paused} is running and uses GPUs [2]"])
    assert sorted(said) == ["GPU Tracker has been enabled", *found]
    users = {0: {asking}, 1: {by_rule}, 2: {asking, paused}, 3: set()}
    assert {number: set(ids) for number, ids in engine.users().items()} == users
    assert tracker("all", "exclusive") == (
        "GPUs [0 1 3] have been made exclusive\n"
        "GPUs [2] have not been made exclusive because more than one container is currently using it\n"
    )
    assert "GPUs [0] are exclusive and already in use" in engine.run("0")

    assert set(found) < set(tracker("reset").splitlines())
    assert {number: set(ids) for number, ids in engine.users().items()} == users
    engine.docker("unpause", paused)
    engine.docker("rm", "-f", asking)
    assert {number: set(ids) for number, ids in engine.users().items()} == {**users, 0: set(), 2: {paused}}
    engine.docker("restart", "--time=0", by_rule)
    assert engine.users()[1] == [by_rule]


class DockerInPidNamespace(Docker):
    """An engine whose processes have a pid namespace of their own, as in a container (docker:dind)."""

    def start(self):
        keep = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "sleep", "infinity"]
        self._keeper = subprocess.Popen([*OWN_NETWORK, *keep], stderr=subprocess.DEVNULL, start_new_session=True)
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children")
        wait_for(lambda: children.read_text() and "sleep" in Path(f"/proc/{self._init(children)}/comm").read_text())
        self.namespace_init = self._init(children)
        self.under = ("nsenter", f"--target={self.namespace_init}", "--pid", "--mount", "--net")
        # It says a number of the namespace before.
        (self.directory / "docker.pid").unlink(missing_ok=True)
        super().start()

    def _init(self, children):
        return int(children.read_text())

    def halt(self):
        """Let the namespace end with all that is in it, which tells nobody."""
        if self._processes:
            os.kill(self.namespace_init, signal.SIGKILL)
            self._keeper.wait()
        super().halt()


@pytest.fixture
def engine_in_namespace(tmp_path, image_archive):
    """Return an engine in a pid namespace, with an enabled tracker; GPU 0 is exclusive."""
    require_root()
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    docker = DockerInPidNamespace(our_program("amd-container-runtime"), host.root)
    docker.start()
    docker.import_image(image_archive)
    yield begin(TrackedDocker(docker, host))
    docker.stop()


def test_a_container_has_its_gpus_again_after_its_engine_got_another_pid_namespace(engine_in_namespace):
    engine = engine_in_namespace
    container = engine.run("0", "--restart=always")
    nodes = engine.docker("exec", container, "ls", "/dev/dri").stdout

    engine.docker.halt()
    engine.docker.start()

    wait_for(lambda: engine.docker("inspect", "--format={{.State.Running}}", container).stdout == "true\n")
    assert nodes == "card3\nrenderD130\n"
    assert engine.docker("exec", container, "ls", "/dev/dri").stdout == nodes
    assert engine.users()[0] == [container]
    assert "GPUs [0] are exclusive and already in use" in engine.run("0")
