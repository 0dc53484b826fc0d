"""Containers with a user namespace of their own open the GPUs that they ask the runtime for, and no others."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from support.cdi_engines import DockerInBox, PodmanInBox
from support.seen import SeenNode, parse_seen

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

RUNTIME = "/usr/bin/amd-container-runtime"
NODES = "/dev/amd-container-toolkit"
UIDMAP = ("--uidmap=0:300000:70000",)
# Release of Debian, engine, the runtime below amd-container-runtime.
ENGINES = {
    "Docker 28": ("forky", "docker", "runc"),
    "Docker 26": ("trixie", "docker", "runc"),
    "Docker 20.10": ("bookworm", "docker", "runc"),
    "Docker 28 with crun": ("forky", "docker", "crun"),
    "Podman 5.8 with crun": ("forky", "podman", "crun"),
    "Podman 5.8 with runc": ("forky", "podman", "runc"),
    "Podman 5.4 with crun": ("trixie", "podman", "crun"),
    "Podman 5.4 with runc": ("trixie", "podman", "runc"),
    "Podman 4.3 with crun": ("bookworm", "podman", "crun"),
    "Podman 4.3 with runc": ("bookworm", "podman", "runc"),
}
# Podman writes no rule that denies if there is a user namespace. With cgroup v1 crun 1.8 and 1.21 then deny nothing;
# runc and crun 1.28 deny what no rule allows, and so does every crun with cgroup v2. The container has no other node
# all the same and can make none.
NO_DENIAL = dict.fromkeys(("Podman 5.4 with crun", "Podman 4.3 with crun"), "opens")
# GPU 0 of mi210-4 as somebody sees it to whom ids of the host are nobody's.
GPU_0 = [
    SeenNode("/dev/kfd", "510:0", "666", "65534:65534", "opens"),
    SeenNode("/dev/dri/card3", "226:3", "666", "65534:65534", "opens"),
    SeenNode("/dev/dri/renderD130", "226:130", "666", "65534:65534", "opens"),
]


class Engine:
    """An engine whose containers have user namespaces of their own, and ask our runtime for GPUs."""

    def __init__(self, name, box, kind, low_level):
        self.name = name
        self.box = box
        self._low_level = low_level
        if kind == "docker":
            self._engine = DockerInBox(box, **{"userns-remap": "u1", "runtimes": {"amd": {"path": RUNTIME}}})
            self._options = ("--runtime=amd",)
            self._by_cdi, self._options_for_cdi = self._engine, ()
        else:
            self._engine = PodmanInBox(box, runtime=RUNTIME)
            self._options = UIDMAP
            self._by_cdi, self._options_for_cdi = PodmanInBox(box, runtime=low_level), UIDMAP

    def choose(self):
        self.box("amd-ctk", "config", "set", "low-level-runtime", self._low_level)

    def see(self, gpus, *options, command=("list-gpus",)):
        """Return what a container that asks for GPUs prints of nodes."""
        ended = self._engine.run_asking(gpus, *command, options=(*self._options, *options))
        assert ended.returncode == 0, ended.stderr
        return parse_seen(ended.stdout)

    def see_by_cdi(self):
        """Return what a container sees that is given a CDI device and does without our runtime."""
        ended = self._by_cdi.run("amd.com/gpu=0", "list-gpus", options=self._options_for_cdi)
        assert ended.returncode == 0, ended.stderr
        return parse_seen(ended.stdout)

    def run(self, gpus, *command, options):
        """Run a command in a container with other options than the usual ones."""
        return self._engine.run_asking(gpus, *command, options=options)

    def see_in_exec(self, gpus, *options):
        container = self._engine.start_asking(gpus, options=(*self._options, *options))
        try:
            return parse_seen(self._engine.exec(container, "list-gpus").stdout)
        finally:
            self._engine.remove(container)


@pytest.fixture(scope="module")
def engines(make_box, tmp_path_factory):
    """Return a function that gives an engine; each kind has a box of its own, as daemons differ in their settings."""
    boxes, made = {}, {}

    def find(name):
        suite, kind, low_level = ENGINES[name]
        if (suite, kind) not in boxes:
            boxes[suite, kind] = stack.enter_context(make_box(suite, tmp_path_factory.mktemp(suite)))
        if name not in made:
            made[name] = Engine(name, boxes[suite, kind], kind, low_level)
        return made[name]

    with ExitStack() as stack:
        yield find


@pytest.fixture(params=ENGINES)
def engine(request, engines):
    found = engines(request.param)
    found.choose()
    return found


@pytest.mark.parametrize("user", [(), ("--user=1000:1000",)], ids=["root", "1000"])
def test_a_container_opens_its_gpus_and_has_no_others(engine, user):
    assert engine.see("0", *user) == GPU_0


def test_another_user_opens_them_in_exec(engine):
    assert engine.see_in_exec("0", "--user=1000:1000") == GPU_0


def test_the_cgroup_refuses_a_node_of_another_gpu_that_is_bound_too(engine):
    # As root of the host could do it; a container cannot.
    engine.see("all")
    other = f"--mount=type=bind,source={NODES}/226:128,target=/other"

    (seen,) = engine.see("0", other, command=("try-nodes", "/other"))

    assert (seen.numbers, seen.access) == ("226:128", NO_DENIAL.get(engine.name, "refused-by-cgroup"))


def test_a_container_has_no_other_node_and_cannot_make_one(engine):
    made = "mknod /tmp/node c 226 128 2>/dev/null || echo /dev/null 1:3 666 65534:65534 opens"

    assert engine.see("0", "--cap-add=MKNOD", command=("sh", "-c", made)) == [
        SeenNode("/dev/null", "1:3", "666", "65534:65534", "opens")
    ]


def test_there_is_one_set_of_nodes_and_no_user_gets_at_it(engine):
    engine.see("all")
    before = engine.box("ls", "-lin", NODES).stdout

    engine.see("0")
    engine.see("all")

    assert engine.box("ls", "-lin", NODES).stdout == before
    assert len(before.splitlines()) == 10
    entered = engine.box("ls", NODES, user="u1", check=False)
    assert (entered.returncode, entered.stdout) == (2, "")


# runc binds the host's nodes; crun, started by root, makes nodes with the mode that the CDI spec says.
CDI_OPENS = {
    "Docker 28": "refused-by-mode",
    "Docker 26": "refused-by-mode",
    "Podman 5.8 with crun": "opens",
    "Podman 5.8 with runc": "refused-by-mode",
    "Podman 5.4 with crun": "opens",
    "Podman 5.4 with runc": "refused-by-mode",
    "Podman 4.3 with crun": "opens",
    "Podman 4.3 with runc": "refused-by-mode",
}


@pytest.mark.parametrize("engine", CDI_OPENS, indirect=True)
def test_the_low_level_runtime_decides_about_access_by_cdi_alone(engine):
    assert {node.access for node in engine.see_by_cdi()} == {CDI_OPENS[engine.name]}


@pytest.mark.parametrize("engine", [name for name in ENGINES if "Podman" in name], indirect=True)
def test_a_container_whose_root_is_that_of_the_host_cannot_close_them(engine):
    engine.see("0")
    engine.run("0", "chmod", "600", "/dev/kfd", options=("--uidmap=0:0:70000",))

    assert engine.see("0") == GPU_0
    assert "rw-------" not in engine.box("ls", "-ln", NODES).stdout
