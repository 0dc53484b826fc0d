"""Podman containers that say how many GPUs they need, on four exclusive MI210."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker
from amdgpu_simulator import build_host
from support.docker import IMAGE
from support.installed import engine_program, our_program, require_root
from support.podman import Podman
from support.shared_host import without_time
from support.tracked_host import TrackedHost, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.podman]

# What a container is given of a reservation's environment.
HANDED_ON = ("AMD_VISIBLE_DEVICES", "AMD_CTK_RESERVATION")
SHOW = ("sh", "-c", "echo $AMD_VISIBLE_DEVICES; ls /dev/dri")


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return TrackedHost(build_host(tmp_path_factory.mktemp("choices") / "host", "mi210-4", bare=True))


@pytest.fixture(scope="module")
def engine(tmp_path_factory, image_archive, machine):
    """Return a Podman whose containers have the GPUs of that host."""
    require_root()
    engine_program("runc")
    runtime = our_program("amd-container-runtime")
    engine = Podman(engine_program("podman"), tmp_path_factory.mktemp("podman"), runtime, machine.host.root)
    engine.import_image(image_archive)
    machine.environment |= engine.environment | {"PATH": machine.environment["PATH"]}
    return engine


@pytest.fixture
def podman(engine, machine):
    """Return that Podman; after the test it has no container, and no job runs."""
    yield engine
    machine.end_jobs()
    engine("rm", "--all", "--force", "--time=0")


@pytest.fixture
def start(podman):
    """Return a function that starts a container that stays: `start("free:1")` is its id, or what Podman says."""

    def start(gpus, *options):
        asking = ("--detach", f"--env=AMD_VISIBLE_DEVICES={gpus}", "--network=none")
        ended = podman("run", *asking, *options, IMAGE, "sleep", "600", check=False)
        return ended.stdout.strip() if ended.returncode == 0 else ended.stderr

    return start


def told(podman, container):
    """Return the GPUs that the first process of a container was told."""
    environment = podman("exec", container, "cat", "/proc/1/environ").stdout.split("\0")
    return dict(entry.split("=", 1) for entry in environment if entry)["AMD_VISIBLE_DEVICES"]


def configured(podman, container, name):
    """Return a variable as `podman inspect` shows it."""
    environment = json.loads(podman("inspect", "--format={{json .Config.Env}}", container).stdout)
    return dict(entry.split("=", 1) for entry in environment)[name]


def test_each_container_has_another_gpu_and_one_too_many_is_refused(podman, start, machine):
    containers = [start("free:1") for _ in range(4)]

    refused = start("free:1")

    assert (
        "free:1: 0 of 4 GPUs are free (0-3 exclusive and in use);"
        " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one" in refused
    )
    assert [told(podman, container) for container in containers] == ["0", "1", "2", "3"]
    # Podman reads it where the runtime wrote what was chosen.
    assert configured(podman, containers[3], "AMD_VISIBLE_DEVICES") == "3"
    assert machine.users() == {number: [container] for number, container in enumerate(containers)}


def test_a_restart_chooses_again(podman, start):
    first, second = start("free:1"), start("free:1")
    podman("rm", "--force", "--time=0", first)

    podman("restart", "--time=0", second)

    assert told(podman, second) == "0"


def test_a_container_has_the_gpus_that_were_reserved_for_it(podman, start, machine):
    start("0")
    command = podman.command("run", "--rm", "--network=none", IMAGE, *SHOW)

    ended = machine.run_job("run", "--gpus=auto:2", "--wait", "--", *command)

    assert (ended.returncode, ended.stderr) == (0, "GPUs 1 and 2\n")
    assert ended.stdout == "1,2\ncard2\ncard4\nrenderD129\nrenderD131\n"


@pytest.fixture
def plain(podman, machine, tmp_path):
    """Return a function that starts a job of that Podman, whose settings name this as the AMD runtime or have none."""

    def run(runtime, *words):
        settings = Path(podman.environment["CONTAINERS_CONF"]).read_text()
        configured = f'[engine.runtimes]\namd = ["{runtime}"]\n' if runtime else ""
        (tmp_path / "containers.conf").write_text(f"{settings}{configured}")
        command = podman.command("run", "--rm", "--network=none", IMAGE, *words)
        place = command.index("--runtime")
        del command[place : place + 2]
        changed = {**machine.environment, "CONTAINERS_CONF": str(tmp_path / "containers.conf")}
        before, machine.environment = machine.environment, changed
        try:
            return machine.run_job("run", "--gpus=1,2", "--", *command)
        finally:
            machine.environment = before

    return run


def test_a_command_without_the_runtime_is_given_it(podman, plain):
    ended = plain(podman.runtime, *SHOW)

    assert (ended.returncode, ended.stderr) == (0, "GPUs 1 and 2\n")
    assert ended.stdout == "1,2\ncard2\ncard4\nrenderD129\nrenderD131\n"


def test_a_podman_without_the_runtime_is_refused_before_anything_is_reserved(plain):
    ended = plain("", "true")

    assert (ended.returncode, ended.stdout) == (126, "")
    assert ended.stderr == "podman has no runtime amd (run 'sudo amd-ctk runtime configure --runtime=podman')\n"


def test_a_reservation_of_the_library_is_handed_to_a_container(podman, start, machine):
    with Tracker(machine.host).reserve("auto:1") as reservation:
        handed_on = [f"--env={name}={reservation.environment[name]}" for name in HANDED_ON]
        container = podman("run", "--detach", "--network=none", *handed_on, IMAGE, "sleep", "600").stdout.strip()
        other = start("free:1")
        assert (told(podman, container), told(podman, other)) == ("0", "1")
        assert machine.users() == {0: [reservation.name, container], 1: [other]}
        assert "GPUs [0] are exclusive and already in use" in start("0")

    assert machine.users() == {0: [container], 1: [other]}


def test_containers_of_a_pod_share_by_the_token_alone(podman, machine):
    podman("pod", "create", "--name=pod", "--infra=false")
    with Tracker(machine.host).reserve("auto:1") as reservation:
        handed_on = [f"--env={name}={reservation.environment[name]}" for name in HANDED_ON]
        pod = ("run", "--detach", "--pod=pod", "--network=none")
        server, helper = (podman(*pod, *handed_on, IMAGE, "sleep", "600").stdout.strip() for _ in range(2))

        assert machine.users() == {0: [reservation.name, server, helper]}
        refused = podman(*pod, "--env=AMD_VISIBLE_DEVICES=0", IMAGE, "true", check=False)
        assert "GPUs [0] are exclusive and already in use" in refused.stderr
        podman("pod", "rm", "--force", "--time=0", "pod")


@pytest.fixture
def pod(podman, machine):
    """Return the words that start a container in a pod; exclusive GPUs belong to pods, and every one is exclusive."""
    machine.ctk("gpu-tracker", "holder", "pod")
    infra = (f"--infra-image={IMAGE}", "--infra-command=sleep 600")
    podman("pod", "create", "--name=pod", "--network=none", "--share=ipc", *infra)
    yield ("run", "--detach", "--pod=pod")
    podman("pod", "rm", "--force", "--time=0", "pod")
    machine.ctk("gpu-tracker", "holder", "container")


def test_containers_of_a_pod_share_an_exclusive_gpu_where_pods_have_them(podman, pod, start, machine):
    asking = (*pod, "--env=AMD_VISIBLE_DEVICES=0", IMAGE, "sleep", "600")
    server, helper = (podman(*asking).stdout.strip() for _ in range(2))

    assert machine.users() == {0: [server, helper]}
    assert "GPUs [0] are exclusive and already in use" in start("0")
    podman("rm", "--force", "--time=0", server)
    assert "GPUs [0] are exclusive and already in use" in start("0")
    podman("rm", "--force", "--time=0", helper)
    assert machine.users() == {}


def test_an_image_with_every_label_of_a_pod_is_in_none(podman, pod, start, machine, image_archive):
    server = podman(*pod, "--env=AMD_VISIBLE_DEVICES=0", IMAGE, "sleep", "600").stdout.strip()
    pod_id = podman("pod", "inspect", "--format={{.Id}}", "pod").stdout.strip()
    labels = {
        "io.podman.annotations.pod-id": pod_id,
        "io.kubernetes.cri.sandbox-id": pod_id,
        "io.kubernetes.cri-o.SandboxID": pod_id,
        "io.kubernetes.pod.uid": pod_id,
        "com.docker.compose.project": "pod",
    }
    forged = [f"--change=LABEL {name}={value}" for name, value in labels.items()]
    podman("import", "--quiet", *forged, image_archive, "forged:local")
    annotations = [f"--annotation={name}={value}" for name, value in labels.items()]
    asking = ("run", "--network=none", "--env=AMD_VISIBLE_DEVICES=0", *annotations, "forged:local", "true")

    refused = podman(*asking, check=False)

    assert "GPUs [0] are exclusive and already in use" in refused.stderr
    assert machine.users() == {0: [server]}


def test_a_container_with_the_token_shares_and_the_next_job_is_served_at_the_end(podman, start, machine):
    sleep = ("--network=none", IMAGE, "sleep", "600")
    machine.start_job("run", "--gpus=all", "--name=first", "--", *podman.command("run", "--name=first", *sleep))
    wait_until(lambda: len(machine.users().get(3, [])) == 2)
    last = ("--wait", "--name=second", "--", *podman.command("run", "--rm", "--network=none", IMAGE, *SHOW))
    second = machine.start_job("run", *last)
    wait_until(lambda: machine.waiting() == ["second"])
    token = configured(podman, "first", "AMD_CTK_RESERVATION")

    assert "GPUs [0] are exclusive and already in use" in start("0")
    helper = start("0", f"--env=AMD_CTK_RESERVATION={token}")
    assert told(podman, helper) == "0"
    podman("rm", "--force", "--time=0", helper)
    assert machine.waiting() == ["second"]
    podman("kill", "first")

    out, said = second.communicate(timeout=180)
    assert (second.returncode, out.splitlines()[0]) == (0, "0")
    assert "waiting for 1 GPU: 0 free of 4; GPUs 0-3: first since 12:00\nGPU 0 after " in without_time(said)
