"""Containers of containerd's own client, `ctr`, that say how many GPUs they need, on four exclusive MI210."""

from __future__ import annotations

import pytest

from support.cdi_engines import RUNTIME, ContainerdInBox
from support.docker import IMAGE
from support.seen import parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

SUITES = {"containerd 2.1": "forky", "containerd 1.7": "trixie"}
RENDER_NODES = {0: "/dev/dri/renderD130", 1: "/dev/dri/renderD131"}
NONE_FREE = (
    "free:1: 0 of 4 GPUs are free (0-3 exclusive and in use);"
    " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
)
# ctr passes nothing of its environment on, and has no short form for it.
IN_JOB = f"""
exec ctr run --rm --snapshotter=native --runc-binary={RUNTIME} \
  --env="AMD_VISIBLE_DEVICES=$AMD_VISIBLE_DEVICES" --env="AMD_CTK_RESERVATION=$AMD_CTK_RESERVATION" \
  {IMAGE} in-job sh -c 'echo $AMD_VISIBLE_DEVICES; ls /dev/dri'
"""


@pytest.fixture(scope="module", params=SUITES)
def engine(request, make_box, tmp_path_factory):
    """Return containerd in a box of its own."""
    with make_box(SUITES[request.param], tmp_path_factory.mktemp("containerd")) as box:
        box.tracker("all", "exclusive")
        yield ContainerdInBox(box)


@pytest.fixture
def start(engine):
    """Return a function that starts a container that stays: `start("free:1")` is its id, or what ctr says."""
    started = []

    def start(gpus):
        answer = engine.start_asking(gpus)
        if answer.returncode:
            return answer.stderr
        started.append(answer.stdout.strip())
        return started[-1]

    yield start
    for container in started:
        if container in engine.box("ctr", "container", "ls", "--quiet").stdout.split():
            engine.remove(container)


def told(engine, container):
    """Return the GPUs that the first process of a container was told."""
    environment = engine.exec(container, "cat", "/proc/1/environ").stdout.split("\0")
    return dict(entry.split("=", 1) for entry in environment if entry)["AMD_VISIBLE_DEVICES"]


def seen(engine, container):
    """Return the render nodes that a container sees and may open."""
    nodes = parse_seen(engine.exec(container, "list-gpus").stdout)
    assert {node.access for node in nodes} == {"opens"}
    return [path for path in paths(nodes) if "render" in path]


def test_each_container_has_another_gpu_and_one_too_many_is_refused(engine, start):
    containers = [start("auto:1"), start("auto:1"), start("free:2")]

    assert [told(engine, container) for container in containers] == ["0", "1", "2,3"]
    assert [seen(engine, container) for container in containers[:2]] == [[RENDER_NODES[0]], [RENDER_NODES[1]]]
    assert NONE_FREE in start("free:1")


def test_a_restart_chooses_again(engine, start):
    first, second = start("auto:1"), start("auto:1")
    engine.remove(first)
    engine.stop(second)

    assert engine.start_again(second).returncode == 0

    assert told(engine, second) == "0"


def test_a_container_has_the_gpus_that_were_reserved_for_it(engine, start):
    start("auto:1")

    ended = engine.box("amd-ctk", "run", "--gpus=auto:2", "--wait", "--", "sh", "-c", IN_JOB, check=False)

    assert (ended.returncode, ended.stderr) == (0, "GPUs 1 and 2\n")
    assert ended.stdout == "1,2\ncard2\ncard4\nrenderD129\nrenderD131\n"
