"""What machines have in common on which the pages' installation is typed: the release, the image and the engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from support.box import Box, nodes_of
from support.busybox import pack
from support.documentation import read_page
from support.installed import our_program
from support.transcripts import parse_page

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
PLACE = "/srv/amd-container-toolkit"
KEY = "Throw Away <throw-away@container-toolkit.invalid>"
IMAGE = "docker.io/rocm/rocm-terminal"
BUILD = """
import sys
from pathlib import Path
from packages import REPOSITORY
from repositories import build_repositories
if rpms := sorted(map(str, Path(sys.argv[2]).glob("*.rpm"))):
    from release import sign_rpms
    sign_rpms(rpms, sys.argv[3])
build_repositories(Path(sys.argv[1]), Path(sys.argv[2]), key=sys.argv[3], address=REPOSITORY)
"""
# What Podman needs in a box.
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
# What a removal says if the runtime was Docker's default.
READ_AGAIN = (
    "Docker has read /etc/docker/daemon.json again, with other changes in it, because amd was its default runtime\n"
)
COMMANDS = [step.command for section in parse_page(read_page("docs/how-to/install.md")) for step in section.steps]
RUN_PODMAN = f"sudo podman run --rm --device amd.com/gpu=all {IMAGE} rocm-smi"
# Of all four GPUs of mi210-4.
EVERY_NODE = ["card1", "card2", "card3", "card4", "kfd", "renderD128", "renderD129", "renderD130", "renderD131"]


def make_repository(packages: Iterable[Path], directory: Path) -> Path:
    """Return the repository that a release makes of these packages, signed by a key of its own."""
    copies, home = directory / "packages", directory / "gpg"
    copies.mkdir()
    home.mkdir(mode=0o700)
    for package in packages:
        shutil.copy(package, copies)
    # rpm keeps its keys and settings below HOME.
    gpg = {**os.environ, "GNUPGHOME": f"{home}", "HOME": f"{home}"}
    make_key = ["gpg", "--batch", "--passphrase=", "--quick-generate-key", KEY, "rsa3072", "sign"]
    subprocess.run(make_key, env=gpg, check=True, capture_output=True)
    words = [sys.executable, "-c", BUILD, directory / "repository", copies, KEY]
    made = subprocess.run(words, env=gpg, cwd=PACKAGING, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    subprocess.run(["gpgconf", "--kill", "gpg-agent"], env=gpg, check=True)
    return directory / "repository"


def make_image(rootfs: Path, directory: Path) -> Path:
    """Return an archive of the image that stands in for AMD's: its rocm-smi lists the nodes of GPUs."""
    shutil.copytree(rootfs, directory / "rootfs", symlinks=True)
    shutil.copy(rootfs / "bin/list-gpus", directory / "rootfs/bin/rocm-smi")
    return pack(directory / "rootfs", directory / "rocm.tar")


def machine_over(root: Path, directory: Path, host: Path, *, online: bool = False) -> Box:
    """Return a box over a root file system, with the nodes and the /sys of a simulated host."""
    words = [our_program("amd-ctk"), "cdi", "generate", "--output=-"]
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": f"{host}"}
    spec = subprocess.run(words, env=environment, stdout=subprocess.PIPE, check=True).stdout
    return Box(str(root), directory, nodes_of(spec), hardware=os.fspath(host), online=online)


def put_in(box: Box, repository: Path, image: Path) -> None:
    """Put the copy of the repository where docs/how-to/install.md expects it, and the image into /box."""
    shutil.copytree(repository, box.share / "repository")
    shutil.copy(image, box.share / "image.tar")
    box("cp", "-r", "/box/repository", PLACE)


def prepare_podman(box: Box) -> None:
    """Let Podman run in a box, and have the image."""
    box.write("/etc/containers/containers.conf", PODMAN.encode())
    box.write("/etc/containers/storage.conf", STORAGE.encode())
    box("podman", "import", "--quiet", "/box/image.tar", IMAGE)


def start_docker(box: Box) -> None:
    """Start Docker in a box, with the image; a script of the name `service` restarts it."""
    box.write("/etc/docker/daemon.json", json.dumps(DAEMON_JSON).encode())
    box.write("/usr/local/sbin/service", SERVICE.encode())
    box("chmod", "755", "/usr/local/sbin/service")
    box("service", "docker", "start")
    box("docker", "import", "/box/image.tar", IMAGE)


def remove_while_docker_runs(box: Box, command: str) -> str:
    """Remove the packages; return what is printed. Docker's containers keep running, and it starts others as before."""
    run = ("docker", "run", "--network=none", "--detach", IMAGE, "sleep", "600")
    find_process = ("docker", "inspect", "--format={{.State.Pid}}", box(*run).stdout.strip())
    before = box(*find_process).stdout
    removed = box("sh", "-c", f"{command} 2>&1").stdout
    assert box("docker", "info", "--format={{.DefaultRuntime}}").stdout == "runc\n"
    assert box(*find_process).stdout == before
    box(*run)
    # An administrator lets Docker read its file again.
    box("sh", "-c", "kill -HUP $(cat /run/docker.pid); sleep 1")
    box(*run)
    return removed


def type_lines(box: Box, lines: list[str], name: str) -> str:
    """Type lines of the page; print the seconds that each takes, and return what the last one prints."""
    began = time.monotonic()
    printed = ""
    for line in lines:
        started = time.monotonic()
        printed = box("sh", "-c", f'sudo() {{ "$@"; }}\n{line} 2>&1').stdout
        print(f"{name}: {time.monotonic() - started:.1f} s  $ {line}")
    print(f"{name}: {time.monotonic() - began:.1f} s in all\n{printed}")
    return printed


def nodes_in(printed: str) -> list[str]:
    """Return the nodes that a container found and could open."""
    return sorted(line.split()[0].rpartition("/")[2] for line in printed.splitlines() if line.endswith(" opens"))
