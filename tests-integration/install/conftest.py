"""Packages built once, and Debian systems that they are installed in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from amdgpu_simulator import build_host
from install.root import build_root
from install.rpm_root import build_rpms
from support.apt_repository import AptRepository, next_version
from support.installed import require_programs, require_root
from support.matrix import Matrix
from support.system import System

CHECKOUT = Path(__file__).resolve().parents[2]
SUITES = ("bookworm", "trixie")
MATRIX = Matrix(
    "install",
    {
        "bullseye": ("Debian 11", "systemd 247, units alone"),
        "bookworm": ("Debian 12", "apt, Python 3.11"),
        "trixie": ("Debian 13", "apt, Python 3.13"),
        "python3": ("rpm", "dnf, `python3`"),
        "fedora": ("rpm", "dnf, `python3`"),
        "el10": ("rpm", "dnf, `python3`"),
        "el9": ("rpm for EL 9", "dnf, `python3.12`"),
        "test_pip.py": ("pip", "virtual environments"),
        "test_run_without_installing.py": ("uvx, pipx", "nothing installed"),
    },
    other=("as built", "debs, rpms"),
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what became of a test."""
    return (yield from MATRIX.watch(item))


def pytest_sessionfinish() -> None:
    """Write docs/maintain/test-results.md if asked for."""
    MATRIX.write_if_asked("AMD_PACKAGES_PAGE")


class Machine:
    """A system with our repository among its sources, and with a simulated host in /run/shared/host."""

    def __init__(self, system: System, later: list[Path], repository: AptRepository) -> None:
        self.system = system
        self.run = system.run
        self.write = system.write
        self._later = later
        self._repository = repository

    def apt(self, words: str) -> str:
        """Call apt-get, which asks nothing and fetches nothing."""
        return self.run(f"apt-get -qq -y -o Dpkg::Use-Pty=0 {words} 2>&1")

    def update(self) -> None:
        """Let apt see what our repository offers."""
        only_toolkit = "-o Dir::Etc::sourcelist=sources.list.d/toolkit.list -o Dir::Etc::sourceparts=-"
        self.apt(f"update {only_toolkit} -o APT::Get::List-Cleanup=0")

    def release_the_next_version(self) -> None:
        """Offer version 9.0 of everything."""
        self._repository.add(self._later)
        self.update()


@pytest.fixture(scope="session")
def debs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the debs of this checkout."""
    require_programs("dpkg-deb", "apt-ftparchive", "gpg", "debootstrap", "unshare", "nsenter")
    directory = tmp_path_factory.mktemp("debs")
    return build(directory)


def build(directory: Path) -> list[Path]:
    """Build all debs into a directory."""
    answer = subprocess.run(
        [sys.executable, CHECKOUT / "packaging/debian.py", directory], capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stderr
    return sorted(directory.glob("*.deb"))


@pytest.fixture(scope="session")
def rpms(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the rpms of this checkout, of every family."""
    require_programs("rpmbuild", "dnf", "createrepo_c", "debootstrap", "unshare")
    return build_rpms(CHECKOUT, tmp_path_factory.mktemp("rpms"))


@pytest.fixture(scope="session")
def later_debs(debs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the packages of a release to come."""
    version = debs[0].name.split("_")[1]
    return next_version(debs, tmp_path_factory.mktemp("later") / "debs", old=version, new="9.0")


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the repository's signing key is."""
    return tmp_path_factory.mktemp("keys") / "gnupg"


@pytest.fixture(scope="module", params=SUITES)
def suite(request: pytest.FixtureRequest) -> str:
    """Return the name of a Debian release."""
    return str(request.param)


@pytest.fixture(scope="session")
def start_machine(debs: list[Path], later_debs: list[Path], keys: Path) -> Callable[[str, Path], Machine]:
    """Return a function that starts a Debian system on which no package of the toolkit is installed yet."""
    require_root()

    def start(suite: str, directory: Path) -> Machine:
        system = System(directory / "system", build_root(suite))
        repository = AptRepository(system.shared / "repository", keys)
        repository.add(debs)
        build_host(system.shared / "host", "mi300x-8")
        machine = Machine(system, later_debs, repository)
        machine.write("/etc/apt/sources.list.d/toolkit.list", repository.source_line("/run/shared/repository"))
        machine.update()
        return machine

    return start


@pytest.fixture
def machine(suite: str, tmp_path: Path, start_machine: Callable[[str, Path], Machine]) -> Iterator[Machine]:
    """Return a running Debian system for one test alone, without any package of the toolkit."""
    started = start_machine(suite, tmp_path)
    yield started
    started.system.stop()


@pytest.fixture(scope="module")
def installed(
    suite: str, tmp_path_factory: pytest.TempPathFactory, start_machine: Callable[[str, Path], Machine]
) -> Iterator[Machine]:
    """Return a running Debian system with everything installed, for tests that leave it as it is."""
    started = start_machine(suite, tmp_path_factory.mktemp(suite))
    # man reads what units say is their manual page.
    started.apt("install amd-container-toolkit man-db")
    yield started
    started.system.stop()


@pytest.fixture
def build_again(tmp_path: Path) -> Callable[[], list[Path]]:
    """Return a function that builds all debs once more, somewhere else."""
    return lambda: build(tmp_path / "again")


@pytest.fixture(scope="session", autouse=True)
def _no_rubbish() -> Iterator[None]:
    yield
    shutil.rmtree(CHECKOUT / "packaging/__pycache__", ignore_errors=True)
