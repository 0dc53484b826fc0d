"""Containers with a user namespace of their own, of this machine's Docker and Podman, open the GPUs they ask for."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from support.docker import IMAGE, Docker
from support.installed import our_program, require_programs, require_root
from support.seen import SeenNode, parse_seen

pytestmark = pytest.mark.e2e

GPU_0 = [
    SeenNode("/dev/kfd", "511:0", "666", "65534:65534", "opens"),
    SeenNode("/dev/dri/card1", "226:1", "666", "65534:65534", "opens"),
    SeenNode("/dev/dri/renderD128", "226:128", "666", "65534:65534", "opens"),
]
# dockerd reads there which ids containers may have; the machine's own files stay as they are.
WITH_IDS = """
echo 1 >/proc/sys/net/ipv4/ip_forward
for file in subuid subgid; do mount --bind "$0/$file" "/etc/$file"; done
exec "$@"
"""
as_every_user = pytest.mark.parametrize("user", ["0:0", "1000:1000"])


class RemappedDocker(Docker):
    """Docker whose containers have user ids of their own."""

    def __init__(self, runtime, host_root):
        super().__init__(runtime, host_root, **{"userns-remap": "daemon"})
        for file in ("subuid", "subgid"):
            (self.directory / file).write_text("daemon:300000:65536\n")
        # Users of containers have to come through.
        self.directory.chmod(0o711)
        self.under = ("unshare", "--net", "--mount", "sh", "-ec", WITH_IDS, os.fspath(self.directory))


@pytest.fixture(scope="module")
def docker(image_archive, mi300x):
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc")
    engine = RemappedDocker(our_program("amd-container-runtime"), mi300x.root)
    engine.start()
    engine.import_image(image_archive)
    yield engine
    engine.stop()


@pytest.mark.docker
@as_every_user
def test_a_remapped_container_of_docker_opens_its_gpus_and_has_no_others(docker, user):
    asking = (f"--user={user}", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0")

    assert parse_seen(docker.output(*asking, command=("list-gpus",))) == GPU_0


@pytest.mark.docker
def test_a_restart_keeps_the_nodes(docker):
    asking = ("--detach", "--user=1000:1000", "--runtime=amd", "--env=AMD_VISIBLE_DEVICES=0")
    container = docker("run", *asking, IMAGE, "sleep", "600").stdout.strip()

    docker("restart", "--time=0", container)

    assert parse_seen(docker("exec", container, "list-gpus").stdout) == GPU_0
    docker("rm", "--force", container)


@pytest.mark.podman
@as_every_user
def test_a_container_of_podman_with_a_map_of_ids_opens_its_gpus_and_has_no_others(podman, user):
    asking = ("--rm", f"--user={user}", "--uidmap=0:300000:70000", "--env=AMD_VISIBLE_DEVICES=0")

    assert parse_seen(podman("run", *asking, IMAGE, "list-gpus").stdout) == GPU_0


@pytest.mark.docker
def test_explain_refuses_privileged_containers_in_the_words_of_a_remapping_docker(docker, tmp_path):
    # Made and not started: not every machine that runs this has all capabilities.
    refused = docker("create", "--privileged", IMAGE, "true", check=False)
    taken = docker("create", "--privileged", "--userns=host", IMAGE, "true")
    docker("rm", taken.stdout.strip())
    host = build_host(tmp_path / "host", "mi210-4", bare=True)
    settings = Path(host.path("/etc/docker/daemon.json"))
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps({"userns-remap": "daemon"}))

    said, said_of_host = (
        subprocess.run(
            [our_program("amd-ctk"), "explain", "docker", "run", "--privileged", *options, IMAGE],
            env={"PATH": "/usr/bin:/bin", "AMD_CTK_HOST_ROOT": host.root},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for options in ((), ("--userns=host",))
    )

    words = "privileged mode is incompatible with user namespaces"
    assert (refused.returncode, words in refused.stderr.lower()) == (1, True)
    assert f"docker refuses --privileged: {words}" in said
    assert words not in said_of_host
