"""The ways in which a compose file asks for GPUs, with the real Docker Compose."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("form", FORMS)
def test_a_service_has_the_gpu_that_its_file_names(docker_28, form):
    docker_28.box.write("/root/compose.yaml", f"{SERVICE}{FORMS[form]}".encode())
    output = docker_28.box.share / "output"
    output.write_text("")

    docker_28.box("docker", "compose", "--file=/root/compose.yaml", "up", "--force-recreate", "--exit-code-from=main")

    assert sorted(paths(parse_seen(output.read_text()))) == GPU_0
