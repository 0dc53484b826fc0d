"""`amd-ctk doctor` beside the engines of three Debian releases, on machines that believe to have GPUs."""

from __future__ import annotations

import json

import pytest

from support.cdi_engines import DAEMON_JSON, DockerInBox, PodmanInBox
from support.tracked_box import keep_boxes

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

RUNTIME = "/usr/bin/amd-container-runtime"
RUNTIMES = {"runtimes": {"amd": {"path": RUNTIME}}}
DOCKERS = {"Docker 28": "forky", "Docker 26": "trixie", "Docker 20.10": "bookworm"}
PODMANS = {"Podman 5.8": "forky", "Podman 5.4": "trixie", "Podman 4.3": "bookworm"}


def bad_of(box, *words):
    """Return what doctor calls bad in a box: {check: words}."""
    ended = box("amd-ctk", "doctor", "--json", *words, check=False)
    assert "Traceback" not in ended.stderr
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
    words = f"/dev/kfd is 510:0 in container {container[:12]}, and no driver answers there"
    assert found == {"inside-nodes": words}
