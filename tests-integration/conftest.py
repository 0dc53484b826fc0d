"""What the suites share: a root file system, and a Docker engine that serves a simulated MI300X host."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host
from amdgpu_simulator import build_host
from support.busybox import build_rootfs, pack
from support.docker import Docker
from support.engines_page import EngineAnswers
from support.installed import engine_program, our_program, require_programs, require_root
from support.one_failure import pytest_runtest_makereport  # noqa: F401 - pytest finds its hook here


@pytest.fixture(scope="session")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root file system with busybox, `list-gpus`, `try-nodes` and `try-numbers`; treat it as read-only."""
    engine_program("busybox")
    return build_rootfs(tmp_path_factory.mktemp("image") / "rootfs")


@pytest.fixture(scope="session")
def image_archive(rootfs: Path) -> Path:
    """Return that root file system as an archive that engines import."""
    return pack(rootfs, rootfs.parent / "busybox.tar")


@pytest.fixture(scope="session")
def start_docker(image_archive: Path) -> Iterator[Callable[..., Docker]]:
    """Return a function that starts an engine that has busybox:local: `start_docker(host.root, **daemon_json)`."""
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc")
    started = []

    def start(host_root: str, **settings: object) -> Docker:
        docker = Docker(our_program("amd-container-runtime"), host_root, **settings)
        started.append(docker)
        docker.start()
        docker.import_image(image_archive)
        return docker

    yield start
    for docker in started:
        docker.stop()


@pytest.fixture(scope="session")
def mi300x(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """Return the simulated host of the shared Docker engine: eight MI300X."""
    return build_host(tmp_path_factory.mktemp("mi300x") / "host", "mi300x-8")


@pytest.fixture(scope="session")
def docker(start_docker: Callable[..., Docker], mi300x: Host) -> Docker:
    """Return a running engine that serves `mi300x`; use names of your own for containers and remove them."""
    return start_docker(mi300x.root)


@pytest.fixture(scope="session")
def observed() -> Iterator[Callable[[str, str, str, str], None]]:
    """Return a function that notes an engine's answer; at the end docs/reference/engines.md is written if asked for."""
    answers = EngineAnswers()
    yield answers.note
    page = os.environ.get("AMD_ENGINES_PAGE")
    if page:
        answers.keep_others(page)
        answers.write_into(page)
