"""Real swarms of one, two and three nodes, the first of which has four MI210."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from amdgpu_simulator import Profile, build_host
from support.installed import SEARCH_PATH, require_programs, require_root
from support.matrix import Matrix
from support.swarm_node import Node, wait_until


def docker_version() -> str:
    """Return what the table says below each swarm; where there is no docker the tests will say so."""
    dockerd = shutil.which("dockerd", path=SEARCH_PATH)
    if dockerd is None:
        return "no docker"
    answer = subprocess.run([dockerd, "--version"], capture_output=True, text=True, check=True)
    return answer.stdout.split(",")[0].replace("version ", "")


MATRIX = Matrix(
    "swarm",
    {
        file: (swarm, docker_version())
        for file, swarm in {
            "test_one_node.py": "one node, MI210 x4",
            "test_two_nodes.py": "two nodes, MI210 x4 and MI300X x8",
            "test_three_nodes.py": "three nodes, MI210 x4, MI300A x4 and R9700",
            "test_bad_nodes.py": "one node that offers what it has not",
            "test_as_written.py": "one node, by hand as guides say",
        }.items()
    },
)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note what became of a test."""
    return (yield from MATRIX.watch(item))


def pytest_sessionfinish() -> None:
    """Write docs/maintain/test-results.md if asked for."""
    MATRIX.write_if_asked("AMD_SWARM_PAGE")


@pytest.fixture(scope="module")
def make_node(image_archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Node]]:
    """Return a function that makes a node, which is not started yet: `make_node("one", "mi210-4", "10.99.8.1")`."""
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc", "ip", "nsenter", "unshare")
    nodes: list[Node] = []

    def make(name: str, profile: str | Profile, address: str = "127.0.0.1", **settings: object) -> Node:
        host = build_host(tmp_path_factory.mktemp(name) / "host", profile)
        nodes.append(Node(name, host, address, **settings))
        return nodes[-1]

    yield make
    for node in nodes:
        node.stop()


@pytest.fixture(scope="module")
def start_manager(image_archive: Path) -> Callable[[Node], Node]:
    """Return a function that starts a node and makes it the manager of a new swarm."""

    def start(node: Node) -> Node:
        node.start()
        node.import_image(image_archive)
        node("swarm", "init", f"--advertise-addr={node.address}")
        return node

    return start


@pytest.fixture(scope="module")
def start_worker(image_archive: Path) -> Callable[[Node, Node], Node]:
    """Return a function that starts a node and joins it to the swarm of a manager."""

    def start(node: Node, manager: Node) -> Node:
        node.start()
        node.import_image(image_archive)
        node.join(manager)
        return node

    return start


@pytest.fixture
def swarm(joined: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """Return the nodes of a module's swarm, its manager first; the services that a test leaves are removed."""
    yield joined
    services = joined[0]("service", "ls", "--quiet").stdout.split()
    if services:
        joined[0]("service", "rm", *services)
    for node in joined:
        wait_until(lambda node=node: not node("ps", "--quiet").stdout)
