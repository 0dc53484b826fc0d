"""Containers of a real Docker engine that serves eight simulated MI300X."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host
from support.docker import IMAGE, Docker
from support.installed import engine_program, our_program, require_root
from support.podman import Podman
from support.seen import SeenNode, parse_seen


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory, image_archive: Path, mi300x: Host) -> Iterator[Podman]:
    """Return Podman of this machine with an image; its containers under the AMD runtime have the GPUs of `mi300x`."""
    require_root()
    engine_program("runc")
    directory = tmp_path_factory.mktemp("podman")
    podman = Podman(engine_program("podman"), directory, our_program("amd-container-runtime"), mi300x.root)
    podman.import_image(image_archive)
    yield podman
    podman("rm", "--all", "--force", "--time=0", check=False)


@pytest.fixture
def run(docker: Docker) -> Callable[..., str]:
    """Return a function that runs a container to its end under --runtime=amd: `run("0-2", "list-gpus")`."""

    def run(gpus: str, *command: str, options: tuple[str, ...] = ()) -> str:
        return docker.output("--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={gpus}", *options, command=command)

    return run


@pytest.fixture
def see(run: Callable[..., str]) -> Callable[..., list[SeenNode]]:
    """Return a function that tells which GPU nodes a container sees: `see("0-2", "--user=1000")`."""
    return lambda gpus, *options: parse_seen(run(gpus, "list-gpus", options=options))


@pytest.fixture
def start(docker: Docker) -> Iterator[Callable[..., str]]:
    """Return a function that starts a container that stays, and returns its id; it is removed after the test."""
    started = []

    def start(gpus: str, *options: str, command: tuple[str, ...] = ("sleep", "600")) -> str:
        asking = ("--detach", "--runtime=amd", f"--env=AMD_VISIBLE_DEVICES={gpus}")
        started.append(docker("run", *asking, *options, IMAGE, *command).stdout.strip())
        return started[-1]

    yield start
    for container in started:
        docker("rm", "--force", container, check=False)
