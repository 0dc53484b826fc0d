"""Containers of a real Docker engine that say how many GPUs they need, on eight exclusive MI210 in two XGMI hives."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_simulator import build_host
from support.debian_root import compose_root
from support.docker import IMAGE
from support.seen import parse_seen, paths
from support.shared_host import without_time
from support.tracked_host import TrackedHost, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

RENDER_NODES = {0: "/dev/dri/renderD130", 1: "/dev/dri/renderD131", 4: "/dev/dri/renderD134", 5: "/dev/dri/renderD135"}
NONE_FREE = (
    "free:1: 0 of 8 GPUs are free (0-7 exclusive and in use);"
    " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
)
TOO_FAR_APART = (
    "free:2+xgmi: 2 of 8 GPUs are free, 1 of them in one XGMI hive (0-2, 4-6 exclusive and in use);"
    " 'amd-ctk run --gpus=free:2+xgmi --wait -- COMMAND' waits for one"
)
# What a container is given of a reservation's environment.
HANDED_ON = ("AMD_VISIBLE_DEVICES", "AMD_CTK_RESERVATION")
# Of Debian 13.
COMPOSE = "usr/libexec/docker/cli-plugins/docker-compose"
# How many containers start at once; more than eight.
AT_ONCE = int(os.environ.get("AMD_CHOICE_CONTAINERS_IN_DOCKER", "12"))


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """Return the host; its configuration has a group."""
    machine = TrackedHost(build_host(tmp_path_factory.mktemp("choices") / "host", "mi210-8", bare=True))
    machine.ctk("config", "set", "gpu-groups", "notebooks=0", "training=4-7")
    return machine


@pytest.fixture(scope="module")
def engine(start_docker, machine):
    """Return an engine of that host."""
    return start_docker(machine.host.root)


@pytest.fixture
def docker(engine, machine):
    """Return that engine; after the test it has no container, and no job runs."""
    yield engine
    machine.end_jobs()
    containers = engine("ps", "-aq").stdout.split()
    if containers:
        engine("rm", "--force", *containers)


@pytest.fixture
def start(docker):
    """Return a function that starts a container that stays: `start("free:1")` is its id, or what Docker says."""

    def start(gpus, *options):
        asking = ("--detach", "--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={gpus}", "--network=none")
        ended = docker("run", *asking, *options, IMAGE, "sleep", "600", check=False)
        return ended.stdout.strip() if ended.returncode == 0 else ended.stderr

    return start


@pytest.fixture
def engine_run(docker):
    """Return a function that gives the words of a `docker run` that names no GPU."""

    def words(*options):
        return ("docker", "-H", f"unix://{docker.socket}", "run", "--runtime=amd", "--network=none", *options, IMAGE)

    return words


def told(docker, container):
    """Return the GPUs that the first process of a container was told."""
    environment = docker("exec", container, "cat", "/proc/1/environ").stdout.split("\0")
    return dict(entry.split("=", 1) for entry in environment if entry)["AMD_VISIBLE_DEVICES"]


def seen(docker, container):
    """Return the render nodes that a container sees and may open."""
    nodes = parse_seen(docker("exec", container, "list-gpus").stdout)
    assert {node.access for node in nodes} == {"opens"}
    return [path for path in paths(nodes) if "render" in path]


def configured(docker, container, name):
    """Return a variable as `docker inspect` shows it."""
    environment = json.loads(docker("inspect", "--format={{json .Config.Env}}", container).stdout)
    return dict(entry.split("=", 1) for entry in environment)[name]


def test_containers_at_once_get_another_gpu_each_and_the_rest_is_refused(docker, engine_run, machine):
    asking = engine_run("--detach", "--env=AMD_VISIBLE_DEVICES=free:1")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    clients = [subprocess.Popen([*asking, "sleep", "600"], **pipes) for _ in range(AT_ONCE)]
    answers = [(client.communicate(), client.returncode) for client in clients]

    started = [out.strip() for (out, _), code in answers if code == 0]
    refused = [error for (_, error), code in answers if code != 0]

    assert [error for error in refused if NONE_FREE not in error] == []
    assert len(refused) == AT_ONCE - 8
    assert sorted(told(docker, container) for container in started) == list("01234567")
    assert machine.users() == {int(told(docker, container)): [container] for container in started}


def test_the_wish_is_shown_outside_and_the_numbers_inside(docker, start):
    start("0")

    container = start("free:1")

    assert configured(docker, container, "AMD_VISIBLE_DEVICES") == "free:1"
    assert told(docker, container) == "1"
    assert seen(docker, container) == [RENDER_NODES[1]]
    # Its environment is that of the image and of the command line.
    assert docker("exec", container, "sh", "-c", "echo $AMD_VISIBLE_DEVICES").stdout == "free:1\n"


def test_a_restart_chooses_again(docker, start, machine):
    first = start("free:1")
    second = start("free:1")
    docker("rm", "--force", first)
    before = told(docker, second)

    docker("restart", "--time=0", second)

    assert (before, told(docker, second)) == ("1", "0")
    assert seen(docker, second) == [RENDER_NODES[0]]
    assert machine.users() == {0: [second]}


def test_neighbours_come_from_one_hive(docker, start):
    start("0-2")

    container = start("auto:2+xgmi")

    assert told(docker, container) == "4,5"
    assert sorted(seen(docker, container)) == [RENDER_NODES[4], RENDER_NODES[5]]
    start("6")
    assert TOO_FAR_APART in start("free:2+xgmi")


def test_a_group_has_its_gpus_and_no_other(docker, start):
    assert told(docker, start("free:4+group:training")) == "4,5,6,7"

    assert "free:1+group:training: 0 of 4 GPUs that fit are free (4-7 exclusive" in start("free:1+group:training")
    assert told(docker, start("free:1+group:notebooks")) == "0"


def test_a_request_that_no_moment_can_meet_is_refused_by_its_own_sentence(start):
    assert "auto:9: this host has 8 GPUs" in start("auto:9")
    assert "there is no group 'x' (gpu-groups of the configuration has notebooks, training)" in start("auto+group:x")


def test_a_training_container_has_two_neighbours_that_were_reserved_for_it(docker, engine_run, machine, tmp_path):
    output = tmp_path / "output"
    output.touch()
    script = "echo $AMD_VISIBLE_DEVICES >/output; list-gpus >>/output; exit 5"
    command = engine_run("--rm", f"--volume={output}:/output")

    ended = machine.run_job("run", "--gpus=auto:2+xgmi", "--wait", "--", *command, "sh", "-c", script)

    numbers, *nodes = output.read_text().splitlines()
    assert (ended.returncode, ended.stderr) == (5, "GPUs 0 and 1\n")
    assert numbers == "0,1"
    nodes = parse_seen("".join(f"{node}\n" for node in nodes))
    assert {node.access for node in nodes} == {"opens"}
    assert sorted(path for path in paths(nodes) if "render" in path) == [RENDER_NODES[0], RENDER_NODES[1]]
    assert machine.users() == {}


@pytest.mark.parametrize("prefix", [(), ("sudo",), ("sudo", "-n", "HOME=/root")], ids=" ".join)
def test_a_command_without_the_runtime_is_given_it_also_behind_sudo(docker, machine, prefix):
    command = ("docker", "-H", f"unix://{docker.socket}", "run", "--detach", "--network=none", IMAGE, "sleep", "600")

    ended = machine.run_job("run", "--gpus=4-5", "--", *prefix, *command)

    container = ended.stdout.strip()
    assert (ended.returncode, ended.stderr) == (0, "GPUs 4 and 5\n")
    assert sorted(seen(docker, container)) == [RENDER_NODES[4], RENDER_NODES[5]]
    assert machine.users() == {4: [container], 5: [container]}


def test_a_docker_without_the_runtime_is_refused_before_anything_is_reserved(start_docker, machine):
    docker = start_docker("/", runtimes={})

    ended = machine.run_job("run", "--", "docker", "-H", f"unix://{docker.socket}", "run", "--rm", IMAGE, "true")

    assert (ended.returncode, ended.stdout) == (126, "")
    assert ended.stderr == (
        "docker has no runtime amd (run 'sudo amd-ctk runtime configure' and 'sudo systemctl restart docker')\n"
    )


def test_a_reservation_of_the_library_is_handed_to_a_container(docker, start, machine):
    with Tracker(machine.host).reserve("auto:1") as reservation:
        handed_on = [f"--env={name}={reservation.environment[name]}" for name in HANDED_ON]
        container = docker("run", "--detach", "--runtime=amd", "--network=none", *handed_on, IMAGE, "sleep", "600")
        container = container.stdout.strip()
        other = start("free:1")
        assert (told(docker, container), told(docker, other)) == ("0", "1")
        assert seen(docker, container) == [RENDER_NODES[0]]
        assert machine.users() == {0: [reservation.name, container], 1: [other]}
        assert "GPUs [0] are exclusive and already in use" in start("0")

    assert machine.users() == {0: [container], 1: [other]}


def test_containers_with_one_token_share_its_gpus_until_the_last_ends(docker, start, engine_run, machine):
    machine.start_job("run", "--gpus=free:1", "--name=train", "--", *engine_run("--name=first"), "sleep", "600")
    wait_until(lambda: len(machine.users().get(0, [])) == 2)
    other = start("free:1")
    copied = f"--env=AMD_CTK_RESERVATION={configured(docker, 'first', 'AMD_CTK_RESERVATION')}"

    assert told(docker, other) == "1"
    helper = start("0", copied)
    assert told(docker, helper) == "0"
    assert machine.users()[0][-1] == helper
    assert "GPUs [0] are exclusive and already in use" in start("0")
    assert "GPUs [1] are exclusive and already in use" in start("1", copied)
    docker("rm", "--force", "first")
    wait_until(lambda: machine.users()[0] == [helper])
    docker("restart", "--time=0", helper)
    assert machine.users()[0] == [helper]
    docker("rm", "--force", helper)
    wait_until(lambda: 0 not in machine.users())
    later = start("free:1")
    assert told(docker, later) == "0"
    assert "GPUs [0] are exclusive and already in use" in start("0", copied)


PROJECT = """\
services:
  server: &both
    image: {image}
    runtime: amd
    network_mode: none
    command: sleep 600
    stop_signal: KILL
    environment: [AMD_VISIBLE_DEVICES, AMD_CTK_RESERVATION]
  helper: *both
  stranger:
    <<: *both
    environment: ["AMD_VISIBLE_DEVICES=0"]
    profiles: [other]
"""


@pytest.mark.engines
def test_a_compose_project_shares_by_the_token_in_its_environment(docker, machine, tmp_path):
    compose = compose_root("trixie") / COMPOSE
    (tmp_path / "compose.yaml").write_text(PROJECT.format(image=IMAGE))

    def call(*words, **handed_on):
        environment = {"PATH": os.environ["PATH"], "DOCKER_HOST": f"unix://{docker.socket}", **handed_on}
        command = [compose, f"--project-directory={tmp_path}", "--project-name=shop", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)

    with Tracker(machine.host).reserve("auto:1") as reservation:
        handed_on = {name: reservation.environment[name] for name in HANDED_ON}
        started = call("up", "--detach", **handed_on)
        assert started.returncode == 0, started.stderr
        server, helper = (call("ps", "-q", name, **handed_on).stdout.strip() for name in ("server", "helper"))

        assert sorted(machine.users()[0]) == sorted([reservation.name, server, helper])
        # It has the labels of the project, and no token.
        refused = call("--profile=other", "up", "--detach", "stranger", **handed_on)
        assert "GPUs [0] are exclusive and already in use" in refused.stderr


def test_a_job_that_waits_is_served_when_the_container_of_the_one_before_ends(docker, engine_run, machine):
    machine.start_job("run", "--gpus=all", "--name=first", "--", *engine_run("--name=first"), "sleep", "600")
    wait_until(lambda: len(machine.users().get(7, [])) == 2)
    second = machine.start_job("run", "--gpus=free:2", "--wait", "--name=second", "--", *engine_run("--rm"), "true")
    wait_until(lambda: machine.waiting() == ["second"])

    docker("kill", "first")

    _, said = second.communicate(timeout=180)
    assert second.returncode == 0
    assert "waiting for 2 GPUs: 0 free of 8; GPUs 0-7: first since 12:00\nGPUs 0 and 1 after " in without_time(said)


def test_a_container_that_outlives_its_client_keeps_its_gpus_from_the_queue(docker, engine_run, machine):
    first = machine.start_job("run", "--gpus=all", "--name=first", "--", *engine_run("--name=first"), "sleep", "600")
    wait_until(lambda: len(machine.users().get(7, [])) == 2)
    container = docker("inspect", "--format={{.Id}}", "first").stdout.strip()
    second = machine.start_job("run", "--wait", "--name=second", "--", "sh", "-c", "echo $AMD_VISIBLE_DEVICES")
    wait_until(lambda: machine.waiting() == ["second"])

    first.kill()

    wait_until(lambda: machine.users() == {number: [container] for number in range(8)})
    assert machine.waiting() == ["second"]
    docker("kill", "first")
    assert second.communicate(timeout=180)[0] == "0\n"


def test_the_next_is_served_when_a_job_or_one_that_waits_is_killed(machine, docker, start):
    start("1-7")
    first = machine.start_job("run", "--gpus=free:1", "--name=first", "--", "sleep", "600")
    wait_until(lambda: machine.users().get(0) == ["first"])
    second = machine.start_job("run", "--gpus=free:1", "--wait", "--name=second", "--", "sleep", "600")
    wait_until(lambda: machine.waiting() == ["second"])
    third = machine.start_job("run", "--gpus=free:1", "--wait", "--name=third", "--", "echo", "served")
    wait_until(lambda: machine.waiting() == ["second", "third"])

    second.kill()
    first.kill()

    assert third.communicate(timeout=180)[0] == "served\n"
    assert machine.waiting() == []


def test_a_nightly_queue_runs_one_job_after_the_other_on_the_gpu_that_is_left(machine, docker, start, tmp_path):
    start("0-6")
    log = tmp_path / "log"
    train = f'echo "$1 begins on $AMD_VISIBLE_DEVICES" >>{log}; sleep 0.2; echo "$1 ends" >>{log}'

    jobs = []
    for model in ("small", "medium", "large"):
        words = ("run", "--gpus=free:1", "--wait=8h", f"--name={model}", "--", "sh", "-c", train, "sh", model)
        jobs.append(machine.start_job(*words))
    codes = [job.wait(180) for job in jobs]

    lines = log.read_text().splitlines()
    models = [line.split()[0] for line in lines[::2]]
    assert codes == [0, 0, 0]
    assert sorted(models) == ["large", "medium", "small"]
    assert lines == [said for model in models for said in (f"{model} begins on 7", f"{model} ends")]
