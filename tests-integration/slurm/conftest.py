"""Real clusters of Slurm: one node with four MI210 for each release of Debian, and others that tests make."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host
from support.debs import build_debs
from support.installed import our_program, require_programs, require_root
from support.matrix import Matrix
from support.slurm_box import SlurmBox
from support.slurm_root import slurm_root

SUITES = {
    "bookworm": ("Slurm 22.05", "Debian 12"),
    "trixie": ("Slurm 24.11", "Debian 13"),
    "forky": ("Slurm 26.05", "Debian 14 in the making"),
}
MATRIX = Matrix("slurm", SUITES)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what became of a test."""
    return (yield from MATRIX.watch(item))


def pytest_sessionfinish() -> None:
    """Write docs/maintain/test-results.md if asked for."""
    MATRIX.write_if_asked("AMD_SLURM_PAGE")


@pytest.fixture(scope="session")
def debs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with the packages of this checkout."""
    return build_debs(tmp_path_factory.mktemp("debs"))


def leave_open(_: Host) -> None:
    """Hide no GPU."""


def amd_ctk(host: Host, *words: str) -> bytes:
    """Return what amd-ctk prints on a simulated host."""
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": host.root}
    return subprocess.run([our_program("amd-ctk"), *words], env=environment, stdout=subprocess.PIPE, check=True).stdout


@pytest.fixture(scope="module")
def make_node(debs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., SlurmBox]]:
    """Return a function that makes a node of a simulated host with the Slurm of a release."""
    require_root()
    require_programs("debootstrap", "ip", "nsenter", "unshare", "busybox")
    with ExitStack() as stack:

        def make(
            suite: str,
            profile: str = "mi210-4",
            number: int = 1,
            hide: Callable[[Host], None] = leave_open,
            *,
            podman: bool = False,
        ) -> SlurmBox:
            directory = tmp_path_factory.mktemp(f"{suite}{number}")
            host = build_host(directory / "host", profile)
            gres = amd_ctk(host, "slurm", "gres", f"--node=n{number}").decode()
            spec = amd_ctk(host, "cdi", "generate", "--output=-")
            hide(host)
            root = slurm_root(suite, podman=podman)
            box = stack.enter_context(SlurmBox(root, directory, host, spec, debs, number=number))
            box.gres = gres
            return box

        yield make


@pytest.fixture(scope="module", params=SUITES)
def node(request: pytest.FixtureRequest, make_node: Callable[..., SlurmBox]) -> SlurmBox:
    """Return a cluster of one node with four MI210."""
    box = make_node(request.param)
    box.configure(box.gres)
    box.start_slurm()
    box.wait_until("srun", "--quiet", "--gres=gpu:4", "--immediate=5", "/bin/true")
    return box
