"""The ways in which a compose file asks for GPUs, with the real Docker Compose."""

from __future__ import annotations

import pytest

from amdgpu_discovery.simulate import build_host
from support.box import Box, nodes_of
from support.cdi_engines import DockerInBox
from support.debian_root import NEWER_PACKAGES, PACKAGES, make_root
from support.debs import build_debs, install_toolkit
from support.docker import IMAGE
from support.installed import require_root
from support.seen import parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

# GPU 0 of the host.
GPU_0 = ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]
RUNTIME = {"amd": {"path": "/usr/bin/amd-container-runtime", "runtimeArgs": []}}
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


@pytest.fixture(scope="module")
def docker(tmp_path_factory, generate, image_archive):
    """Return Docker with Compose and the AMD runtime, in a box with four MI210."""
    require_root()
    directory = tmp_path_factory.mktemp("compose")
    root = make_root("compose-forky", "forky", *PACKAGES, *NEWER_PACKAGES, "docker-compose")
    host = build_host(directory / "host", "mi210-4")
    debs = build_debs(tmp_path_factory.mktemp("debs"))
    with Box(str(root), directory, nodes_of(generate()), hardware=host.root) as box:
        (box.share / "image.tar").write_bytes(image_archive.read_bytes())
        install_toolkit(box, debs)
        box("amd-ctk", "cdi", "generate")
        yield DockerInBox(box, runtimes=RUNTIME)


@pytest.mark.parametrize("form", FORMS)
def test_a_service_has_the_gpu_that_its_file_names(docker, form):
    docker.box.write("/root/compose.yaml", f"{SERVICE}{FORMS[form]}".encode())
    output = docker.box.share / "output"
    output.write_text("")

    docker.box("docker", "compose", "--file=/root/compose.yaml", "up", "--force-recreate", "--exit-code-from=main")

    assert sorted(paths(parse_seen(output.read_text()))) == GPU_0
