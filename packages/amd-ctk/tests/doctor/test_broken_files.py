"""Doctor comes to its end whatever is in the place of a file that it reads."""

from __future__ import annotations

import json
import os
import sys

import pytest

from amd_ctk.doctor.facts.all import read_facts
from amd_ctk.doctor.facts.users import User
from amd_ctk.doctor.run import run_checks

FILES = {
    "/etc/amd-container-toolkit/config.compiled": "{}",
    "/etc/apt/sources.list.d/amd.list": "deb https://repo.radeon.com/x noble main\n",
    "/etc/amd-container-toolkit/config.toml": 'unknown-gpus = "error"\n',
    "/etc/amd-container-toolkit/rocm-drivers.json": '{"modules": {"6.10": {"tested": ["6.4"]}}}',
    "/run/amd-container-toolkit/waiting/starts": "{}",
    "/etc/cdi/amd.json": "{}",
    "/etc/cdi/other.yaml": "kind: amd.com/gpu\n",
    "/etc/containerd/config.toml": "version = 2\n",
    "/etc/containers/containers.conf": "",
    "/etc/containers/containers.conf.d/amd.conf": "",
    "/etc/default/docker": "DOCKER_OPTS=\n",
    "/etc/docker/daemon.json": json.dumps({"runtimes": {"amd": {"path": "/x/amd-container-runtime"}}}),
    "/etc/modprobe.d/local.conf": "options amdgpu dpm=0\n",
    "/etc/os-release": "VERSION_CODENAME=trixie\n",
    "/etc/slurm/cgroup.conf": "",
    "/etc/slurm/gres.conf": "Name=gpu File=/dev/dri/renderD128\n",
    "/etc/slurm/oci.conf": "",
    "/etc/subgid": "u1:100000:65536\n",
    "/etc/subuid": "u1:100000:65536\n",
    "/etc/sudoers": "Defaults secure_path=/usr/bin\n",
    "/etc/sudoers.d/local": "",
    "/etc/systemd/system/docker.service.d/local.conf": "[Service]\nEnvironment=A=B\n",
    "/home/u1/.config/containers/containers.conf": "",
    "/home/u1/.config/containers/containers.conf.d/own.conf": "",
    "/run/cdi/amd.json": "{}",
    "/run/amd-container-toolkit/unrecorded/history": '{"problem": "the disk is full"}',
    "/run/crun/c1/status": '{"pid": 1}',
    "/run/runc/c1/state.json": "{}",
    "/usr/lib/systemd/system/docker.service": "[Service]\nEnvironmentFile=/etc/default/docker\nExecStart=dockerd\n",
    "/var/lib/amd-container-toolkit/gpu-tracker.json": "{}",
    "/var/lib/dpkg/status": "Package: amdgpu-dkms\nStatus: install ok installed\n",
}
# Looked for, and not there on most hosts.
MAY_BE_THERE = (
    "/etc/containerd/conf.d/99-amd.toml",
    "/etc/nsswitch.conf",
    "/run/amd-container-toolkit/unrecorded/drains",
    "/run/amd-container-toolkit/unrecorded/gpus",
    "/run/amd-container-toolkit/unrecorded/metrics",
    "/run/crun/c1/state.json",
    "/run/runc/c1/status",
    "/usr/share/containers/containers.conf",
)
USER = User(name="u1", uid=1000, groups=(110,), home="/home/u1", runtime_directory="/run/user/1000")
DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/lib/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/amd-container-toolkit/parts",
    "/var/lib/amd-container-toolkit/cdi",
    "/etc/apt/sources.list.d",
    "/etc/cdi",
    "/etc/sudoers.d",
    "/run/amd-container-toolkit/leases",
    "/run/amd-container-toolkit/queue",
    "/run/amd-container-toolkit/waiting",
    "/run/amd-container-toolkit",
    "/run/docker",
    "/run/runc",
    "/run/containerd/runc",
    "/var/lib/dkms/amdgpu",
)
# As JSON, as YAML and as TOML.
WRONG_TYPES = (
    7,
    [[1], [2]],
    {"runtimes": [1], "features": []},
    {"runtimes": {"amd": [1]}, "features": {"cdi": 7}},
    {"runtimes": {"amd": {"path": 7}}},
    {"runtimes": {"amd": {"path": "/a\0/amd-container-runtime"}}},
    {"runtimes": {"amd": {"path": f"/{'x' * 300}/amd-container-runtime"}}},
    {"cdiVersion": 7, "kind": [], "devices": 7},
    {"cdiVersion": "0.5.0", "kind": "amd.com/gpu", "devices": [7]},
    {"pid": "x", "version": [], "enabled": 7, "gpus": 7},
    {"pid": 1e308, "version": 1, "enabled": True, "gpus": {"0": 7}},
)
BREAKAGES = {
    "nothing": str,
    "an empty file": lambda path: path.write_bytes(b""),
    "a directory": lambda path: path.mkdir(),
    "a pipe": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a file without end": lambda path: path.symlink_to("/dev/zero"),
    "a file of 100 GiB": lambda path: write_sparse(path, 100 << 30),
    "NUL bytes": lambda path: path.write_bytes(b"\0" * 100),
    "any byte": lambda path: path.write_bytes(bytes(range(256))),
    "brackets without end": lambda path: path.write_text("[" * 100_000),
    "a long number": lambda path: path.write_text("9" * 5000),
    "one word": lambda path: path.write_text("x\n"),
    **{json.dumps(value)[:60]: lambda path, value=value: path.write_text(json.dumps(value)) for value in WRONG_TYPES},
}


def write_sparse(path, size):
    path.touch()
    os.truncate(path, size)


def examine(made):
    return run_checks(read_facts(made.host, user=USER, proc=str(made.proc)))


@pytest.fixture
def busy(machine):
    """Return a host that has every file that doctor reads, and no engine to ask."""
    made = machine()
    made.add_program("podman", "exit 1")
    made.write("/home/u1/.local/share/containers/storage/db.sql", "")
    for path, content in FILES.items():
        made.write(path, content)
    return made


@pytest.mark.parametrize("breakage", BREAKAGES)
def test_no_file_is_too_broken(busy, breakage):
    for path in FILES:
        file = busy.root / path.lstrip("/")
        content = file.read_bytes()
        file.unlink()
        BREAKAGES[breakage](file)

        assert examine(busy), path

        if os.path.lexists(file):
            busy.remove(path)
        file.write_bytes(content)


@pytest.mark.parametrize("breakage", ["an empty file", "a pipe", "a link to itself", "a file without end"])
def test_no_directory_is_too_broken(busy, breakage):
    for path in DIRECTORIES:
        directory = busy.root / path.lstrip("/")
        if directory.exists():
            busy.remove(path)
        directory.parent.mkdir(parents=True, exist_ok=True)
        BREAKAGES[breakage](directory)

        assert examine(busy), path


def test_the_list_above_has_every_file_that_is_read(busy):
    opened = set()
    # No hook can be removed: it slows down all tests that come after it.
    sys.addaudithook(lambda event, words: opened.add(str(words[0])) if event in ("open", "os.listdir") else None)

    examine(busy)

    below = {path.removeprefix(str(busy.root)) for path in opened if path.startswith(f"{busy.root}/")}
    configured = {
        path for path in below if not path.startswith(("/sys/", "/dev/")) and not path.endswith(("service.d", ".tmp"))
    }
    directories = {path for path in configured if os.path.isdir(f"{busy.root}{path}")}
    assert configured - directories - {*MAY_BE_THERE, *DIRECTORIES} == set(FILES)
