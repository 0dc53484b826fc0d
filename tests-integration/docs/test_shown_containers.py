"""Every container that the documentation starts is started by a real Docker, on the simulated host of its page.

The images come from AMD's registry. A small one of their names stands in for them here: its `rocm-smi` prints the GPU
nodes it finds, its `python3` says how many GPUs these are, and its `vllm` repeats its arguments.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from amdgpu_discovery.host import Host
from support.busybox import pack_rocm
from support.docker import Docker
from support.documentation import prepare, run, sections
from support.installed import our_program, require_programs, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

SECTIONS = sections(with_docker=True)
IMAGES = ("rocm/rocm-terminal", "rocm/pytorch", "rocm/vllm")
PROGRAMS = {"python3": "ls /dev/dri | grep -c renderD", "vllm": 'echo "$@"'}


@pytest.fixture(scope="session")
def rocm_archive(rootfs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack_rocm(rootfs, tmp_path_factory.mktemp("rocm"), PROGRAMS)


@pytest.fixture
def host(place: str, tmp_path: Path) -> Host:
    return prepare(SECTIONS[place], tmp_path)


@pytest.fixture
def engine(place: str, host: Host, rocm_archive: Path) -> Iterator[Docker]:
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc")
    engine = Docker(our_program("amd-container-runtime"), host.root)
    try:
        engine.start()
        for image in IMAGES:
            if any(image in step.command for step in SECTIONS[place].steps):
                engine.import_image(rocm_archive, image)
        yield engine
    finally:
        engine.stop()


@pytest.mark.parametrize("place", SECTIONS)
def test_containers_do_what_the_page_shows(place: str, host: Host, engine: Docker) -> None:
    def restart() -> None:
        engine.halt()
        take_settings(engine, host)
        engine.start()

    run(SECTIONS[place], host, {"DOCKER_HOST": f"unix://{engine.socket}"}, restart)


def take_settings(engine: Docker, host: Host) -> None:
    """Let the engine have what the page wrote into the daemon.json of its host."""
    own = engine.directory / "daemon.json"
    written = Path(host.path("/etc/docker/daemon.json"))
    settings = json.loads(written.read_text(encoding="utf-8")) if written.exists() else {}
    own.write_text(json.dumps({**json.loads(own.read_text(encoding="utf-8")), **settings}), encoding="utf-8")
