"""The image that installs the toolkit onto a host, in a container that sees the root of one.

The host has busybox and the files of a simulated host, and neither python nor a C library, as an immutable host may.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.driver.device_nodes import find_device_nodes
from amdgpu_simulator import build_host
from support.busybox import build_rootfs
from support.docker import Docker
from support.installed import engine_program, require_programs, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.install, pytest.mark.docker]

CHECKOUT = Path(__file__).resolve().parents[2]
PREFIX = "opt/amd-container-toolkit"
CONTAINERD = """version = 2

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
"""
# Prints what it is given in place of making a container.
RUNC = '#!/bin/sh\necho "runc $*"\n'
REFUSAL = "amd-container-toolkit: the host's root is not mounted at /host (start the container with --volume=/:/host)\n"


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the image of this checkout."""
    require_root()
    require_programs("patchelf", "dpkg", "ldd")
    words = [sys.executable, CHECKOUT / "packaging/node_image.py", tmp_path_factory.mktemp("image")]
    answer = subprocess.run(words, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    return Path(answer.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def docker(image: Path) -> Iterator[Docker]:
    """Return an engine that has loaded the image."""
    engine_program("dockerd")
    engine = Docker(Path("/usr/sbin/runc"))
    try:
        engine.start()
        engine("load", "--input", os.fspath(image))
        yield engine
    finally:
        engine.stop()


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Return the root of a host with four MI210, containerd and runc."""
    root = build_rootfs(tmp_path / "host")
    simulated = build_host(tmp_path / "simulated", "mi210-4")
    subprocess.run(["cp", "-a", f"{simulated.root}/.", root], check=True)
    for node in find_device_nodes(simulated, find_gpus(simulated)):
        path = root / node.path[1:]
        path.unlink()
        os.mknod(path, 0o020660, os.makedev(node.major, node.minor))
    for name in ("opt", "etc/containerd", "etc/cdi", "usr/sbin", "usr/bin", "var/lib", "var/log", "run"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "etc/containerd/config.toml").write_text(CONTAINERD)
    (root / "usr/sbin/runc").write_text(RUNC)
    (root / "usr/sbin/runc").chmod(0o755)
    return root


def in_container(docker: Docker, host: Path, *words: str) -> str:
    """Return what the container of the image prints, with the host's root at /host."""
    name = docker("images", "--quiet", "amd-container-toolkit").stdout.split()[0]
    # A host's root has its /proc.
    ended = docker("run", "--rm", f"--volume={host}:/host", "--volume=/proc:/host/proc", name, *words)
    return ended.stdout + ended.stderr


def on_host(host: Path, *words: str) -> str:
    """Return what a program prints that somebody calls on the host."""
    environment = {"PATH": f"/{PREFIX}/bin:/usr/sbin:/usr/bin:/bin"}
    mounted = 'mount --bind /proc "$1/proc" && exec chroot "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, "sh", os.fspath(host), *words]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def everything_in(host: Path) -> dict[str, str]:
    """Return each file of the host, with its mode and the hash of its content or where it leads."""
    facts = {}
    for path in (path for path in host.rglob("*") if not path.is_relative_to(host / "sys")):
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        facts[f"{path.relative_to(host)}"] = f"{path.lstat().st_mode:o} {content}"
    return facts


def test_without_the_root_of_a_host_nothing_is_done(docker: Docker) -> None:
    name = docker("images", "--quiet", "amd-container-toolkit").stdout.split()[0]

    ended = docker("run", "--rm", name, "install", check=False)

    assert (ended.returncode, ended.stderr) == (1, REFUSAL)


def test_install_configures_containerd_and_containers_get_their_gpus(docker: Docker, host: Path) -> None:
    printed = in_container(docker, host, "install", "--engine=containerd")

    assert printed == (
        "Loading configuration from: /etc/containerd/config.toml\n"
        "Updated the config file: /etc/containerd/config.toml\n"
        "Please restart containerd daemon\n"
        "Generated CDI spec: /etc/cdi/amd.json\n"
    )
    assert f'BinaryName = "/{PREFIX}/bin/amd-container-runtime"' in (host / "etc/containerd/config.toml").read_text()
    assert on_host(host, "amd-ctk", "cdi", "validate").endswith("CDI spec is valid\n")
    bundle = host / "bundle/config.json"
    bundle.parent.mkdir()
    bundle.write_text(json.dumps({"process": {"env": ["AMD_VISIBLE_DEVICES=0"]}, "linux": {}}))
    runtime = f"/{PREFIX}/bin/amd-container-runtime"
    assert on_host(host, runtime, "create", "--bundle=/bundle", "c1") == "runc create --bundle=/bundle c1\n"
    nodes = [device["path"] for device in json.loads(bundle.read_text())["linux"]["devices"]]
    assert nodes == ["/dev/dri/card3", "/dev/dri/renderD130", "/dev/kfd"]


def test_an_upgrade_replaces_the_toolkit_and_keeps_what_was_set(docker: Docker, host: Path) -> None:
    in_container(docker, host, "install", "--engine=containerd")
    on_host(host, "amd-ctk", "config", "set", "log-level", "debug")
    (host / PREFIX / "lib/of-the-version-before").touch()
    configured = (host / "etc/containerd/config.toml").read_text()

    printed = in_container(docker, host, "install", "--engine=containerd")

    assert "The config file is up to date: /etc/containerd/config.toml\n" in printed
    assert (host / "etc/containerd/config.toml").read_text() == configured
    assert on_host(host, "amd-ctk", "config", "show", "log-level") == "debug\n"
    assert not (host / PREFIX / "lib/of-the-version-before").exists()
    assert sorted(os.listdir(host / "opt")) == ["amd-container-toolkit"]


def test_remove_leaves_nothing(docker: Docker, host: Path) -> None:
    before = everything_in(host)
    in_container(docker, host, "install", "--engine=containerd")
    on_host(host, "amd-ctk", "config", "set", "log-level", "debug")
    on_host(host, "amd-ctk", "gpu-tracker", "enable")

    printed = in_container(docker, host, "remove")

    assert f"Removed /{PREFIX}; restart the engines that were configured\n" in printed
    assert everything_in(host) == before
    assert in_container(docker, host, "remove") == f"/{PREFIX} does not exist: nothing to remove\n"
