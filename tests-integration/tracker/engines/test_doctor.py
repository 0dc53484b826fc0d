"""`amd-ctk doctor` beside the engines of three Debian releases, on machines that believe to have GPUs."""

from __future__ import annotations

import json

import pytest

from support.box import USER
from support.cdi_engines import DAEMON_JSON, DockerInBox, PodmanInBox, RootlessPodmanInBox
from support.docker import IMAGE
from support.tracked_box import keep_boxes

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

RUNTIME = "/usr/bin/amd-container-runtime"
RUNTIMES = {"runtimes": {"amd": {"path": RUNTIME}}}
DOCKERS = {"Docker 28": "forky", "Docker 26": "trixie", "Docker 20.10": "bookworm"}
PODMANS = {"Podman 5.8": "forky", "Podman 5.4": "trixie", "Podman 4.3": "bookworm"}


def ask_doctor(box, *words, user=""):
    """Return how doctor ended in a box, once engines answered in time: a machine that is busy may take longer."""
    for _ in range(20):
        ended = box("amd-ctk", "doctor", *words, user=user, check=False)
        if ended.stdout and "gave no answer" not in ended.stdout:
            break
    assert "Traceback" not in ended.stderr
    return ended


def bad_of(box, *words, user=""):
    """Return what doctor calls bad in a box: {check: words}."""
    ended = ask_doctor(box, "--json", *words, user=user)
    checks = json.loads(ended.stdout)["checks"]
    return {check["id"]: check["words"] for check in checks if check["state"] == "bad"}


@pytest.fixture(scope="module")
def box(tmp_path_factory, make_box):
    """Return a function that gives a box of this file's own: no other test has started an engine in it."""
    with keep_boxes(make_box, tmp_path_factory) as find:
        yield find


@pytest.fixture(scope="module")
def dockers(box):
    """Return a function that gives Docker of a release, which knows the AMD runtime."""
    made = {}

    def find(name):
        if name not in made:
            made[name] = DockerInBox(box(DOCKERS[name]), **RUNTIMES)
        return made[name]

    return find


@pytest.fixture(params=DOCKERS)
def docker(request, dockers):
    return dockers(request.param)


@pytest.fixture(params=PODMANS)
def podman(request, box):
    return PodmanInBox(box(PODMANS[request.param]), runtime=RUNTIME)


def test_docker_with_the_runtime_has_nothing_bad(docker):
    container = docker.start_asking("0-2", options=("--runtime=amd",))

    assert bad_of(docker.box) == {}
    docker.remove(container)


def test_a_daemon_that_has_not_read_its_file_is_found(docker):
    before = {**DAEMON_JSON, **RUNTIMES}
    docker.box.write("/etc/docker/daemon.json", json.dumps({**before, "runtimes": {"gpu": {"path": RUNTIME}}}).encode())

    found = bad_of(docker.box)

    docker.box.write("/etc/docker/daemon.json", json.dumps(before).encode())
    assert list(found) == ["docker"]
    assert found["docker"].endswith("was started before daemon.json had the runtime gpu")


def test_a_container_of_docker_without_gpus_is_found_by_its_name(docker):
    container = docker.start_asking("none", options=("--runtime=amd", "--name=doctor"))

    found = bad_of(docker.box, "--container=doctor")

    docker.remove(container)
    assert found == {"inside-nodes": "container doctor was given no GPU: it has no /dev/kfd and no render node"}


def test_a_user_of_docker_is_not_let_in_by_a_node_with_the_hosts_mode(docker):
    nodes = ("--device=/dev/kfd", "--device=/dev/dri/renderD128", "--user=1000")
    container = docker.start_asking("none", options=nodes)

    found = bad_of(docker.box, f"--container={container}")

    docker.remove(container)
    assert found == {"inside-access": "user 1000 with groups 1000 may not open /dev/kfd, which is 0660 0:110"}


def test_doctor_gives_the_reason_why_a_container_cannot_use_its_gpus(docker):
    # Docker before 28.3 does not start it; it is there, and does not run.
    docker.box("docker", "create", "--gpus=all", "--name=in-vain", "--network=none", IMAGE, "sleep", "600")
    docker.box("docker", "start", "in-vain", check=False)

    found = bad_of(docker.box, "--container=in-vain")

    docker.remove("in-vain")
    why = "it runs under runc" if docker.version() >= "28.3" else f"Docker {docker.version()} has no --gpus for AMD"
    assert found == {"docker-gpus": f"container in-vain asks with --gpus, but {why}"}


def test_a_runtime_that_is_gone_is_found(docker):
    docker.box("mv", RUNTIME, f"{RUNTIME}.away")

    found = bad_of(docker.box)

    docker.box("mv", f"{RUNTIME}.away", RUNTIME)
    assert found == {"docker-file": f"daemon.json names {RUNTIME}, which does not exist"}


def test_cdi_that_is_off_is_noted(docker):
    before = {**DAEMON_JSON, **RUNTIMES}
    docker.box.write("/etc/docker/daemon.json", json.dumps({**before, "features": {"cdi": False}}).encode())

    ended = ask_doctor(docker.box, "--only=docker,docker-cdi")

    docker.box.write("/etc/docker/daemon.json", json.dumps(before).encode())
    why = "Docker's CDI is off" if docker.version() >= "25" else f"Docker {docker.version()} has no CDI"
    assert (ended.returncode, f"docker-cdi  note         {why}" in ended.stdout) == (0, True)


def test_two_faults_of_docker_and_its_host_are_both_found(docker):
    before = {**DAEMON_JSON, **RUNTIMES}
    docker.box.write("/etc/docker/daemon.json", json.dumps({**before, "runtimes": {"gpu": {"path": RUNTIME}}}).encode())
    docker.box("chmod", "600", "/dev/kfd")

    found = bad_of(docker.box)

    docker.box("chmod", "660", "/dev/kfd")
    docker.box.write("/etc/docker/daemon.json", json.dumps(before).encode())
    assert list(found) == ["node-access", "docker"]


def test_a_bundle_of_a_machine_with_an_engine_is_replayed_word_for_word(docker):
    here = ask_doctor(docker.box, "--bundle=/tmp/doctor.tar.xz")

    elsewhere = docker.box("amd-ctk", "doctor", "--replay=/tmp/doctor.tar.xz", check=False)

    assert (elsewhere.stdout, elsewhere.returncode) == (here.stdout, here.returncode)


@pytest.fixture(params=PODMANS)
def rootless(request, box):
    return RootlessPodmanInBox(box(PODMANS[request.param]))


def test_rootless_podman_of_a_user_in_the_group_has_nothing_bad(rootless):
    assert bad_of(rootless.box, user=USER) == {}


def test_a_lack_of_rootless_podman_is_found(rootless):
    rootless.box("sed", "-i", f"/^{USER}:/s/^/#/", "/etc/subuid")
    rootless.box("chgrp", "4711", "/dev/kfd", "/dev/dri/renderD128")

    found = bad_of(rootless.box, user=USER)

    rootless.box("sed", "-i", "s/^#//", "/etc/subuid")
    rootless.box("chgrp", "110", "/dev/kfd", "/dev/dri/renderD128")
    assert found["podman-user"] == f"user {USER} has no range of ids in /etc/subuid"
    assert found["podman-nodes"] == f"user {USER} is not in group 4711, which /dev/kfd belongs to"


def test_podman_with_the_runtime_has_nothing_bad(podman):
    container = podman.start_asking("0-2")

    assert bad_of(podman.box) == {}
    podman.remove(container)


def test_a_container_of_podman_without_gpus_is_found(podman):
    container = podman.start_asking("none")

    found = bad_of(podman.box, f"--container={container}")

    podman.remove(container)
    words = f"container {container[:12]} was given no GPU: it has no /dev/kfd and no render node"
    assert found == {"inside-nodes": words}


def test_numbers_without_a_driver_are_said_to_be_dead(podman):
    container = podman.start_asking("0")

    found = bad_of(podman.box, f"--container={container}")

    podman.remove(container)
    # These machines have everything of GPUs but the driver that answers.
    words = f"/dev/kfd is 510:0 in container {container[:12]}, but no driver answers there"
    assert found == {"inside-nodes": words}
