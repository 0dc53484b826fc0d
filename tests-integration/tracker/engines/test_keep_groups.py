"""`podman run --group-add keep-groups` under our runtime on machines that have both runc and crun."""

from __future__ import annotations

import pytest

from support.box import USER
from support.cdi_engines import PodmanInBox
from support.seen import parse_seen

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

RUNTIME = "/usr/bin/amd-container-runtime"
SUITES = {"Podman 5.8": "forky", "Podman 5.4": "trixie", "Podman 4.3": "bookworm"}
ASKING = "--env=AMD_VISIBLE_DEVICES=1"
KEEPING = "--group-add=keep-groups"


class Engine:
    """Podman of root or of a user with our runtime, and where the runtimes below keep their containers."""

    def __init__(self, box, user):
        self.box = box
        self.podman = PodmanInBox(box, user=user, runtime=RUNTIME)
        self._runtimes = "/run/user/1100" if user else "/run"

    def maker_of(self, container):
        paths = {"runc": f"runc/{container}/state.json", "crun": f"crun/{container}/status"}
        return [
            name
            for name, path in paths.items()
            if self.box("test", "-e", f"{self._runtimes}/{path}", check=False).returncode == 0
        ]

    def start(self, *options):
        return self.podman.start_plain(ASKING, *options).stdout.strip()

    def low_level_runtime(self, *words):
        self.box("amd-ctk", "config", *words)


@pytest.fixture(params=["", USER], ids=["root", "rootless"])
def user(request):
    return request.param


@pytest.fixture(params=SUITES)
def engine(request, box, user):
    machine = box(SUITES[request.param])
    machine.tracker("disable")
    engine = Engine(machine, user)
    yield engine
    engine.podman.remove("--all")
    machine.tracker("enable")


def opened(seen):
    """Return the nodes that open; the user is in the group of render nodes and not in that of cards."""
    assert seen.returncode == 0, seen.stderr
    return sorted(node.path for node in parse_seen(seen.stdout) if node.access == "opens")


def test_a_container_that_keeps_its_users_groups_runs_and_ends_with_crun(engine, user):
    container = engine.start(KEEPING)

    assert engine.maker_of(container) == ["crun"]
    cards = [] if user else ["/dev/dri/card4"]
    assert opened(engine.podman.exec(container, "list-gpus")) == [*cards, "/dev/dri/renderD131", "/dev/kfd"]
    engine.podman.stop(container)
    assert engine.maker_of(container) == []
    again = engine.podman.start_again(container)
    assert again.returncode == 0, again.stderr
    assert engine.maker_of(container) == ["crun"]
    engine.podman.remove(container)
    assert engine.maker_of(container) == []


def test_a_container_that_does_not_is_made_by_runc_beside_it(engine):
    kept = engine.start(KEEPING)
    other = engine.start()

    assert (engine.maker_of(kept), engine.maker_of(other)) == (["crun"], ["runc"])
    for container in (kept, other):
        assert engine.podman.exec(container, "true").returncode == 0
        engine.podman.stop(container)
        engine.podman.remove(container)
    assert (engine.maker_of(kept), engine.maker_of(other)) == ([], [])


def test_the_runtime_names_both_versions(engine):
    answer = engine.box(RUNTIME, "--version").stdout.splitlines()

    assert answer[0].startswith("runc version ")
    assert answer[-1].startswith("amd-container-runtime: ")


def test_a_container_that_crun_made_before_is_not_lost_to_runc(engine):
    engine.low_level_runtime("set", "low-level-runtime", "crun")
    container = engine.start()
    engine.low_level_runtime("unset", "low-level-runtime")

    assert engine.maker_of(container) == ["crun"]
    assert engine.podman.exec(container, "true").returncode == 0
    engine.podman.stop(container)
    engine.podman.remove(container)
    assert engine.maker_of(container) == []
