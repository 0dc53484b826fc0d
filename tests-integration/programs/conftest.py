"""A simulated host, every program as a process, and a runc that stands in."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.installed import our_program
from support.stand_in_runc import install


class Machine:
    """A machine with a simulated host, on which programs are called by their names."""

    def __init__(self, directory: Path, kernel: Path) -> None:
        """Make a host of the kernel's directories of another, which nothing writes to, and empty ones of its own."""
        self.directory = directory
        self.root = directory / "host"
        self.root.mkdir()
        for name in ("sys", "dev"):
            (self.root / name).symlink_to(kernel / name)
        self.records = directory / "calls.jsonl"
        self.bundle = directory / "bundle"
        (directory / "bin").mkdir()
        (self.bundle / "rootfs").mkdir(parents=True)
        install(directory / "bin", self.records)
        self.environment = {
            "PATH": f"{directory}/bin:/usr/bin:/bin",
            "HOME": os.fspath(directory),
            "AMD_CTK_HOST_ROOT": os.fspath(self.root),
        }

    def __call__(self, program: str, *words: object) -> subprocess.CompletedProcess[str]:
        """Run one of our programs and return what it printed and its exit code."""
        return self._run(our_program(program), *words)

    def python(self, *words: object) -> subprocess.CompletedProcess[str]:
        return self._run(Path(sys.executable), "-I", *words)

    def runtime(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Call the runtime with the global options of an engine."""
        return self("amd-container-runtime", "--root", self.directory / "state", *words)

    def create(self, gpus: str, name: str = "c1") -> subprocess.CompletedProcess[str]:
        """Create a container that asks for these GPUs, as engines do."""
        spec = {
            "ociVersion": "1.2.0",
            "root": {"path": "rootfs"},
            "process": {"args": ["sleep"], "env": [f"AMD_VISIBLE_DEVICES={gpus}"]},
            "linux": {},
        }
        (self.bundle / "config.json").write_text(json.dumps(spec))
        return self.runtime("create", "--bundle", self.bundle, "--pid-file", self.directory / "pid", name)

    @property
    def calls(self) -> list[dict[str, Any]]:
        """What runc was called with, in order."""
        return [json.loads(line) for line in self.records.read_text().splitlines()] if self.records.exists() else []

    def _run(self, program: Path, *words: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *map(str, words)],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )


# Every profile, and how many GPUs and partitions its host has.
HOSTS = {
    "headless": 1,
    "mi210-4": 4,
    "mi210-8": 8,
    "mi300a-4": 4,
    "mi300x-8": 8,
    "mi300x-8-cpx": 63,
    "mi300x-vf": 2,
    "mi308x-8-cpx": 32,
    "mi355x-8": 8,
    "one-gpu": 1,
    "rx7900xtx-raphael": 2,
    "strix-halo": 1,
}


@pytest.fixture(params=list(HOSTS))
def profile(request):
    return request.param


@pytest.fixture
def gpu_count(profile):
    """Return how many GPUs and partitions the host of this test has."""
    return HOSTS[profile]


@pytest.fixture(scope="session")
def kernel_of(tmp_path_factory):
    """Return a function that builds the host of a profile, once, with the program that users build it with."""

    @functools.cache
    def build(profile: str) -> Path:
        directory = tmp_path_factory.mktemp(profile) / "host"
        command = [sys.executable, "-I", "-m", "amdgpu_simulator", "build", profile, directory]
        subprocess.run(command, check=True, capture_output=True)
        return directory

    return build


@pytest.fixture
def machine(tmp_path, profile, kernel_of):
    """Return a machine with the host of a profile; containers c1 and c2 are removed after the test."""
    machine = Machine(tmp_path, kernel_of(profile))
    yield machine
    for name in ("c1", "c2"):
        machine.runtime("delete", "--force", name)


@pytest.fixture
def bare_machine(tmp_path, kernel_of):
    """Return a machine without the driver."""
    machine = Machine(tmp_path, kernel_of("no-driver"))
    yield machine
    machine.runtime("delete", "--force", "c1")
