"""Dev Containers by their own program, with the `runArgs` that name the AMD runtime or a CDI device."""

from __future__ import annotations

import json
import subprocess

import pytest

from support.docker import IMAGE
from support.installed import engine_program
from support.seen import parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

PACKAGE = "@devcontainers/cli@0.89.0"
PROGRAM = ("node", "/box/dev-containers/package/devcontainer.js")
GPU_0 = ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
NO_NETWORK = "--network=none"


@pytest.fixture(scope="module")
def devcontainer(docker_28, tmp_path_factory):
    """Return a function that starts the container of a devcontainer.json, and returns the nodes that are in it."""
    directory = docker_28.box.share / "dev-containers"
    directory.mkdir()
    cache = tmp_path_factory.mktemp("npm")
    fetch = [engine_program("npm"), "pack", "--silent", f"--cache={cache}", PACKAGE]
    archive = subprocess.run(fetch, cwd=directory, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    subprocess.run(["tar", "--extract", "--file", archive], cwd=directory, check=True)

    def start(name, *options, **settings):
        workspace = f"--workspace-folder=/root/{name}"
        docker_28.box.write(
            f"/root/{name}/.devcontainer/devcontainer.json", json.dumps({"image": IMAGE, **settings}).encode()
        )
        docker_28.box(*PROGRAM, "up", workspace, *options)
        return sorted(paths(parse_seen(docker_28.box(*PROGRAM, "exec", workspace, "list-gpus").stdout)))

    yield start
    # They run on, and whoever enables the tracker next would find a GPU in use.
    docker_28.box("sh", "-c", "docker ps --quiet | xargs --no-run-if-empty docker rm --force")


def test_a_dev_container_has_the_gpu_that_its_environment_names(devcontainer):
    settings = {"runArgs": [NO_NETWORK, "--runtime=amd"], "containerEnv": {"AMD_VISIBLE_DEVICES": "0"}}

    assert devcontainer("runtime", **settings) == GPU_0


def test_a_dev_container_has_the_cdi_device_of_its_arguments(devcontainer):
    assert devcontainer("cdi", runArgs=[NO_NETWORK, "--device=amd.com/gpu=0"]) == GPU_0


def test_a_gpu_that_it_requires_is_one_of_another_vendor(devcontainer):
    """It looks for NVIDIA's runtime in `docker info`, says that it found none, and starts without."""
    settings = {"runArgs": [NO_NETWORK, "--runtime=amd"], "hostRequirements": {"gpu": True}}

    assert devcontainer("required", **settings) == []


def test_told_that_there_is_one_it_asks_docker_for_all(devcontainer):
    settings = {"runArgs": [NO_NETWORK, "--runtime=amd"], "hostRequirements": {"gpu": True}}

    assert len(devcontainer("told", "--gpu-availability=all", **settings)) == 9
