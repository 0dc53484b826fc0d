"""Every `podman run` that the guides show works for the user who types it: root after sudo, a user in group render."""

from __future__ import annotations

import re

import pytest

from support.busybox import pack_rocm
from support.documentation import PAGES, read_page
from support.installed import require_root
from support.stand import Stand

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

TYPED = re.compile(r"^(?:\$ )?((?:sudo )?(?:amd-ctk run .*-- )?podman run .*)$", re.MULTILINE)
LINES = sorted({line for page in PAGES for line in TYPED.findall(read_page(page))})
# A job of one GPU.
JOB = "SLURM_JOB_ID=7 SLURM_JOB_GPUS=1 SLURM_STEP_GPUS=1"
# The system has no program for networks of users.
SETTINGS = '[containers]\nnetns = "none"\n'
IMAGES = ("rocm-terminal", "pytorch")
# An image that says itself what runs in it.
APP = "registry.example/app:1.0"


@pytest.fixture(scope="module")
def server(tmp_path_factory, rootfs):
    """Return a GPU server that is set up as docs/how-to/install.md and configure-engines.md say, with these images."""
    require_root()
    image = pack_rocm(rootfs, tmp_path_factory.mktemp("rocm"), {"python3": "exec rocm-smi"})
    server = Stand(tmp_path_factory.mktemp("stand"), "trixie")
    try:
        server.run("amd-ctk cdi generate && amd-ctk runtime configure --runtime=podman && loginctl enable-linger alice")
        for user in ("root", "alice"):
            server.put_image(image, user)
            for name in IMAGES:
                server.as_user(user, f"podman tag busybox:local docker.io/rocm/{name}")
            server.as_user(user, f"podman import --quiet '--change=CMD [\"rocm-smi\"]' /run/shared/image.tar {APP}")
        server.run("mkdir -p /etc/slurm; amd-ctk slurm gres >/etc/slurm/gres.conf")
        server.write("/etc/containers/containers.conf.d/50-stand.conf", SETTINGS)
        yield server
    finally:
        server.stop()


def type_line(server, line):
    """Type a line as its user, in a job where it names one; return which render nodes open and which do not."""
    user, command = ("root", line.removeprefix("sudo ")) if line.startswith("sudo ") else ("alice", line)
    server.write("/run/line", f"export {JOB}\n{command}\n" if "SLURM" in line else f"{command}\n")
    seen = server.as_user(user, "sh /run/line 2>&1", check=False)
    nodes = re.findall(r"^/dev/dri/(renderD\d+) .* (\S+)$", seen, re.MULTILINE)
    assert nodes, seen
    return [node for node, access in nodes if access == "opens"], [node for node, access in nodes if access != "opens"]


@pytest.mark.parametrize("line", [line for line in LINES if "amd-ctk run" not in line])
def test_a_container_opens_its_gpus(server, line):
    opened, closed = type_line(server, line)

    assert (bool(opened), closed) == (True, [])


@pytest.mark.parametrize("line", [line for line in LINES if "amd-ctk run" in line])
def test_a_user_of_a_shared_server_has_a_gpu_that_was_reserved(server, line):
    server.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive; amd-ctk users allow everyone")
    try:
        opened, closed = type_line(server, line)
        without = type_line(server, line.replace("--runtime=amd ", ""))
        server.run("amd-ctk runtime configure --runtime=podman --remove")
        by_cdi = type_line(server, line.replace("--runtime=amd ", ""))
    finally:
        server.run("amd-ctk users deny --all; amd-ctk gpu-tracker disable")
        server.run("amd-ctk runtime configure --runtime=podman")

    assert (opened, closed) == (["renderD130"], [])
    assert (without, by_cdi) == ((opened, closed), (opened, closed))


def test_the_guides_have_lines_of_both_users_and_of_a_shared_server():
    assert any(line.startswith("sudo podman") for line in LINES)
    assert any("amd-ctk run --gpus=free:1 --wait -- podman run" in line for line in LINES)
