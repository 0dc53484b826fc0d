"""What the page about immutable images types: images are built, pushed, joined, and run by one name on three hosts."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from amdgpu_simulator import build_host
from support.busybox import pack_rocm
from support.docker import Docker
from support.documentation import read_page
from support.installed import our_program, require_programs, require_root
from support.registry import Registry, log_in
from support.transcripts import is_match, parse_page

pytestmark = pytest.mark.e2e

PAGE = read_page("docs/how-to/immutable-images.md")
# test_image_proxy.py pulls as the rest of the page does.
WITH_PICK = PAGE.partition("## Let engines choose")[0]
STEPS = [step for section in parse_page(WITH_PICK) for step in section.steps if "registry.example" in step.command]
RUN = STEPS[-1].command
# What hipcc makes says for what it was made.
HIPCC = r"""mkdir -p /usr/local/bin; printf '#!/bin/sh\necho built with %s\n' "$1" >"$3"; chmod 755 "$3" """


class DockerOnLoopback(Docker):
    """A Docker that reaches the registry of this machine."""

    under = ()


class Server:
    """A simulated host, its Docker, and a person who is logged in."""

    def __init__(self, profile, directory, registry):
        self.directory = directory
        directory.mkdir()
        self.host = build_host(directory / "host", profile, bare=True)
        self.docker = DockerOnLoopback(our_program("amd-container-runtime"), self.host.root)
        self.docker.start()
        log_in(directory, registry.address)
        self._address = registry.address
        self._environment = {
            "PATH": f"{our_program('amd-ctk').parent}:{os.environ['PATH']}",
            "HOME": str(directory),
            "DOCKER_HOST": f"unix://{self.docker.socket}",
            # The builder of the daemon; buildx is not everywhere.
            "DOCKER_BUILDKIT": "0",
            "SSL_CERT_FILE": str(registry.certificate),
            "AMD_CTK_HOST_ROOT": self.host.root,
        }

    def type(self, command):
        """Type a line of the page, with the address of the registry; return what it printed and its exit code."""
        typed = command.replace("registry.example", self._address)
        ended = subprocess.run(
            ["bash", "-c", f"{{ {typed}\n}} 2>&1"],
            cwd=self.directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        return ended.stdout.replace(self._address, "registry.example"), ended.returncode


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return a function that makes a host whose person is logged in to a registry with password and TLS."""
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc", "skopeo")
    registry = Registry(tmp_path_factory.mktemp("registry"), has_login=True, has_tls=True)
    directory, servers = tmp_path_factory.mktemp("servers"), []

    def make(profile):
        servers.append(Server(profile, directory / profile, registry))
        return servers[-1]

    yield make
    for made in servers:
        made.docker.stop()
    registry.stop()


def test_one_name_runs_the_image_that_each_host_needs(server, rootfs, tmp_path):
    here = server("mi210-4")
    here.docker.import_image(pack_rocm(rootfs, tmp_path, {"hipcc": HIPCC}), name="rocm/dev-ubuntu-24.04")
    (dockerfile,) = re.findall(r"^```dockerfile\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (here.directory / "Dockerfile").write_text(dockerfile)
    (here.directory / "app.hip").touch()

    for step in STEPS:
        printed, code = here.type(step.command)
        assert code == 0, printed
        assert is_match(step.expected, printed), printed

    assert "built with --offload-arch=gfx90a" in here.type(RUN)[0]
    assert "built with --offload-arch=gfx942" in server("mi300x-8").type(RUN)[0]
    other = server("strix-halo")
    printed, code = other.type("amd-ctk image pick registry.example/app:1.0")
    assert code == 1
    assert printed.splitlines()[-1] == "none of 2 images fits"
    # Without `pick` Docker takes the first image, and the runtime has the last word.
    wrong, code = other.type("docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=all registry.example/app:1.0")
    assert code != 0
    assert "AMD_REQUIRE_GFX=gfx=gfx90a: GPU 0 is gfx1151" in wrong
