"""pip installs each distribution alone into a clean environment, and it works there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from amdgpu_discovery.simulate import build_host
from install.container import ITS_NODES
from support.bare_runtime import BareRuntime
from support.installed import engine_program, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.install]

CHECKOUT = Path(__file__).resolve().parents[2]
TRIALS = {
    "amdgpu-discovery": ["python", "-m", "amdgpu_discovery.simulate", "list"],
    "amd-device-spec": ["python", "-c", "import amd_device_spec.cdi"],
    "amd-gpu-tracker": ["amd-gpu-tracker", "status"],
    "amd-container-runtime": ["python", "-c", "import amd_container_runtime.create"],
    "amd-ctk": ["amd-ctk", "gpu", "list"],
}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a directory with the wheels and source distributions of this checkout."""
    directory = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, CHECKOUT / "packaging/wheels.py", directory], check=True, capture_output=True)
    return directory


@pytest.mark.parametrize("distribution", TRIALS)
def test_a_distribution_alone_works_and_leaves_nothing(tmp_path, built, distribution):
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    host = build_host(tmp_path / "host", "mi300x-8")
    before = set(environment.rglob("*"))

    run(environment, "python", "-m", "pip", "-q", "install", "--find-links", built, "--pre", distribution)
    run(environment, *TRIALS[distribution], AMD_CTK_HOST_ROOT=host.root)

    installed = run(environment, "python", "-m", "pip", "list", "--format=freeze")
    names = [line.partition("==")[0] for line in installed.splitlines()]
    run(environment, "python", "-m", "pip", "-q", "uninstall", "-y", *(name for name in names if name != "pip"))
    assert {path for path in set(environment.rglob("*")) - before if path.is_file()} == set()


def test_a_container_gets_its_gpus_through_the_runtime_that_pip_installed(tmp_path, built, rootfs):
    require_root()
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    host = build_host(tmp_path / "host", "mi300x-8")
    run(environment, "python", "-m", "pip", "-q", "install", "--find-links", built, "--pre", "amd-container-runtime")
    program = environment / "bin/amd-container-runtime"
    runtime = BareRuntime(program, tmp_path, rootfs, host.root, engine_program("runc"))

    assert runtime.run("0,2", "sh", "-c", "cd /dev/dri; echo *") == ITS_NODES


def test_there_is_a_wheel_and_a_source_distribution_of_each(built):
    kinds = dict.fromkeys(TRIALS, 0)
    for path in built.iterdir():
        kinds[path.name.split("-2.")[0].replace("_", "-")] += 1

    assert set(kinds.values()) == {2}


@pytest.mark.parametrize("distribution", TRIALS)
def test_a_source_distribution_makes_the_same_wheel(tmp_path, built, distribution):
    name = distribution.replace("-", "_")
    source = next(built.glob(f"{name}-*.tar.gz"))
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source]
    subprocess.run(words, check=True)

    assert files_of(next(tmp_path.glob("*.whl"))) == files_of(next(built.glob(f"{name}-*.whl")))


def files_of(wheel):
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def run(environment, program, *words, **variables):
    answer = subprocess.run(
        [environment / "bin" / program, *words],
        env={"PATH": os.environ["PATH"], "HOME": f"{environment.parent}", **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout
