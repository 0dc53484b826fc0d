"""The ways in which a compose file asks for GPUs, with the real Docker Compose."""

from __future__ import annotations

import pytest

from support.debian_root import compose_root
from support.docker import IMAGE
from support.seen import parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

# GPU 0 of the host.
GPU_0 = ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
SERVICE = f"""\
services:
  main:
    image: {IMAGE}
    network_mode: none
    command: ["sh", "-c", "list-gpus >/output"]
    volumes: ["/box/output:/output"]
"""
FORMS = {
    "runtime": """\
    runtime: amd
    environment: {AMD_VISIBLE_DEVICES: "0"}
""",
    "devices": """\
    devices: ["amd.com/gpu=0"]
""",
    "deploy": """\
    deploy:
      resources:
        reservations:
          devices:
            - driver: cdi
              device_ids: ["amd.com/gpu=0"]
              capabilities: [gpu]
""",
    "gpus": """\
    gpus:
      - driver: cdi
        device_ids: ["amd.com/gpu=0"]
""",
}


# Compose 2.40 knows all forms; that of Debian 13 leaves one out, and Docker refuses what it makes of another.
OF_DEBIAN_13 = {"runtime": GPU_0, "devices": None, "deploy": GPU_0, "gpus": []}
SAID = {
    "devices": "Compose 2.26.1 takes amd.com/gpu=0 for a path, which Docker refuses",
    "gpus": "problem: Compose 2.26.1 leaves 'gpus:' out: write it below 'deploy:'",
}


@pytest.fixture(scope="module")
def docker_26(make_docker):
    """Return the Docker of Debian 13 with its Compose; its CDI is on, as `runtime configure` turns it on."""
    return make_docker(compose_root("trixie"))


def start(docker, form):
    """Start the service in this form; return the nodes that it sees, None where it does not start."""
    docker.box.write("/root/compose.yaml", f"{SERVICE}{FORMS[form]}".encode())
    output = docker.box.share / "output"
    output.write_text("")
    words = ("docker", "compose", "--file=/root/compose.yaml", "up", "--force-recreate", "--exit-code-from=main")
    ended = docker.box(*words, check=False)
    return sorted(paths(parse_seen(output.read_text()))) if ended.returncode == 0 else None


@pytest.mark.parametrize("form", FORMS)
def test_a_service_has_the_gpu_that_its_file_names(docker_28, form):
    assert start(docker_28, form) == GPU_0


@pytest.mark.parametrize("form", FORMS)
def test_explain_says_what_the_compose_of_debian_13_makes_of_a_form(docker_26, form):
    seen = start(docker_26, form)
    explained = docker_26.box("amd-ctk", "explain", "/root/compose.yaml", "main", check=False)
    said = " ".join(explained.stdout.split())

    assert seen == OF_DEBIAN_13[form]
    assert (explained.returncode, "/dev/dri/renderD130" in said) == ((0, True) if seen else (1, False))
    assert SAID.get(form, "") in said
