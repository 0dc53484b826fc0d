"""The lines of the README, typed on machines on which nothing of the toolkit is installed, up to a container with GPUs.

The machines are Debian 12 and 13 with an engine, in boxes whose /sys and /dev are those of a simulated host. They have
no network: an image that only lists its GPUs stands in for rocm/rocm-terminal, and apt asks no repository but that of
the README. Nothing of systemd runs in them; a script of the name `service` restarts Docker.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from amdgpu_discovery.simulate import build_host
from support.box import Box, nodes_of
from support.busybox import pack
from support.debian_root import debian_root
from support.documentation import read_page
from support.installed import engine_program, our_program, require_root
from support.transcripts import parse_page

pytestmark = [pytest.mark.e2e, pytest.mark.install, pytest.mark.timeout(1800)]

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
PLACE = "/srv/amd-container-toolkit"
KEY = "Throw Away <throw-away@container-toolkit.invalid>"
IMAGE = "rocm/rocm-terminal"
BUILD = """
import sys
from pathlib import Path
from repositories import build_repositories
build_repositories(Path(sys.argv[1]), Path(sys.argv[2]), key=sys.argv[3], address=sys.argv[4])
"""
# Nobody is there to answer apt, and what it would ask of the archive is there already.
APT = 'APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "false";\n'
# What a container engine needs in a box.
PODMAN = """\
[containers]
netns = "none"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
"""
STORAGE = """\
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
"""
SERVICE = """#!/bin/sh
[ ! -e /run/docker.pid ] || kill "$(cat /run/docker.pid)"
while [ -e /run/docker.pid ]; do sleep 0.1; done
setsid dockerd --pidfile=/run/docker.pid </dev/null >>/box/dockerd.log 2>&1 &
until docker version >/dev/null 2>&1; do sleep 0.2; done
"""
DAEMON_JSON = {"storage-driver": "vfs", "bridge": "none", "iptables": False, "ip6tables": False}
COMMANDS = [step.command for section in parse_page(read_page("README.md")) for step in section.steps]
FIND, INSTALL = COMMANDS[:2]
CONFIGURE = "sudo amd-ctk runtime configure --restart"
LINES = {
    "podman": [FIND, INSTALL, f"podman run --rm --device amd.com/gpu=all {IMAGE} rocm-smi"],
    "docker": [FIND, INSTALL, CONFIGURE, f"docker run --rm --device amd.com/gpu=all {IMAGE} rocm-smi"],
    "docker without CDI": [
        *(FIND, INSTALL, CONFIGURE),
        f"docker run --rm --runtime=amd -e AMD_VISIBLE_DEVICES=0-2 {IMAGE} rocm-smi",
    ],
}
# Of GPUs 2, 0 and 1; GPU 3 has the first of both.
THREE = ["card2", "card3", "card4", "kfd", "renderD129", "renderD130", "renderD131"]
NODES = {
    "podman": ["card1", *THREE[:4], "renderD128", *THREE[4:]],
    "docker": ["card1", *THREE[:4], "renderD128", *THREE[4:]],
    "docker without CDI": THREE,
}


@pytest.fixture(scope="module")
def repository(debs, tmp_path_factory):
    """Return the repository that a release makes of the debs of this checkout."""
    for program in ("createrepo_c", "podman"):
        engine_program(program)
    directory = tmp_path_factory.mktemp("first")
    packages = directory / "packages"
    packages.mkdir()
    for deb in debs:
        shutil.copy(deb, packages)
    gpg = {**os.environ, "GNUPGHOME": f"{tmp_path_factory.mktemp('gpg')}"}
    make_key = ["gpg", "--batch", "--passphrase=", "--quick-generate-key", KEY, "rsa3072", "sign"]
    subprocess.run(make_key, env=gpg, check=True, capture_output=True)
    words = [sys.executable, "-c", BUILD, directory / "repository", packages, KEY, f"file:{PLACE}"]
    subprocess.run(words, env=gpg, cwd=PACKAGING, check=True, capture_output=True)
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=gpg, check=True)
    return directory / "repository"


@pytest.fixture(scope="module")
def image(rootfs, tmp_path_factory):
    """Return an archive of the image that stands in for AMD's."""
    directory = tmp_path_factory.mktemp("rocm")
    shutil.copytree(rootfs, directory / "rootfs", symlinks=True)
    shutil.copy(rootfs / "bin/list-gpus", directory / "rootfs/bin/rocm-smi")
    return pack(directory / "rootfs", directory / "rocm.tar")


@pytest.fixture
def machine(suite, engine, repository, image, tmp_path):
    """Return a machine with four MI210 and an engine that has the image."""
    require_root()
    host = build_host(tmp_path / "host", "mi210-4")
    words = [our_program("amd-ctk"), "cdi", "generate", "--output=-"]
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": host.root}
    spec = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True).stdout
    with Box(str(debian_root(suite)), tmp_path / "box", nodes_of(spec), hardware=host.root) as box:
        shutil.copytree(repository, box.share / "repository")
        shutil.copy(image, box.share / "image.tar")
        box("cp", "-r", "/box/repository", PLACE)
        box("rm", "-f", "/etc/apt/sources.list")
        box.write("/etc/apt/apt.conf.d/99tests", APT.encode())
        start_engine(box, engine)
        yield box


def start_engine(box, engine):
    if engine == "podman":
        box.write("/etc/containers/containers.conf", PODMAN.encode())
        box.write("/etc/containers/storage.conf", STORAGE.encode())
        box("podman", "import", "--quiet", "/box/image.tar", IMAGE)
    else:
        box.write("/etc/docker/daemon.json", json.dumps(DAEMON_JSON).encode())
        box.write("/usr/local/sbin/service", SERVICE.encode())
        box("chmod", "755", "/usr/local/sbin/service")
        box("service", "docker", "start")
        box("docker", "import", "/box/image.tar", IMAGE)


def nodes_in(printed):
    """Return the nodes that a container found and could open."""
    return sorted(line.split()[0].rpartition("/")[2] for line in printed.splitlines() if line.endswith(" opens"))


@pytest.mark.parametrize(("suite", "engine"), [
    ("bookworm", "podman"), ("trixie", "podman"), ("bookworm", "docker without CDI"), ("trixie", "docker"),
])  # fmt: skip
def test_the_lines_of_the_readme_lead_to_a_container_with_gpus(machine, suite, engine):
    assert set(LINES[engine]) <= set(COMMANDS)
    assert len(LINES[engine]) == (3 if engine == "podman" else 4)
    began = time.monotonic()

    for line in LINES[engine]:
        started = time.monotonic()
        printed = machine("sh", "-c", f'sudo() {{ "$@"; }}\n{line} 2>&1').stdout
        print(f"{suite} {engine}: {time.monotonic() - started:.1f} s  $ {line}")

    print(f"{suite} {engine}: {time.monotonic() - began:.1f} s in all\n{printed}")
    assert nodes_in(printed) == NODES[engine]
