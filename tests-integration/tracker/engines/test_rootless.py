"""Rootless Podman and the tracker: shared GPUs for everybody, exclusive ones for root's containers alone."""

from __future__ import annotations

import json

import pytest

from support.box import USER
from support.cdi_engines import PodmanInBox, RootlessPodmanInBox
from support.debian_root import EXPERIMENTAL, of
from support.tracked_box import CLAIMS, REASON_ELSEWHERE, REFUSES

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

RUNTIME = "/usr/bin/amd-container-runtime"
ENGINES = {
    "Podman 5.8, rootless": "forky",
    "Podman 5.4, rootless": "trixie",
    "Podman 4.3, rootless": "bookworm",
    "Podman, experimental, rootless": EXPERIMENTAL,
}
EXCLUSIVE = "GPUs [0] are exclusive, which users get only with a reservation"


class Machine:
    """A box with Podman of a user, by CDI and by our runtime, and Podman of root."""

    def __init__(self, name, box):
        self.name = name
        self.box = box
        self.by_cdi = RootlessPodmanInBox(box)
        self.by_runtime = PodmanInBox(box, user=USER, runtime=RUNTIME)
        self.of_root = PodmanInBox(box)

    def start_asking(self, gpus):
        """Start a container of the user that asks by environment; return its id."""
        return self.by_runtime.start_plain(f"--env=AMD_VISIBLE_DEVICES={gpus}").stdout.strip()

    def remove_all(self):
        for podman in (self.by_cdi, self.by_runtime, self.of_root):
            podman.remove("--all")

    def refusals_of_the_user(self):
        shown = self.box("amd-ctk", "gpu-tracker", "refused", "--json", user=USER).stdout
        return [(refusal["container_id"], refusal["message"]) for refusal in json.loads(shown)]


@pytest.fixture(scope="module")
def machines(box):
    """Return a function that gives a machine with a release's engines."""
    made = {}

    def find(name):
        if name not in made:
            made[name] = Machine(name, box(ENGINES[name]))
        return made[name]

    return find


@pytest.fixture(params=[pytest.param(name, marks=of(suite)) for name, suite in ENGINES.items()])
def machine(request, machines):
    """Return a machine with an enabled tracker; GPU 0 is exclusive, and none is in use."""
    found = machines(request.param)
    found.box.tracker("enable")
    found.box.tracker("reset")
    found.box.tracker("0", "exclusive")
    yield found
    found.remove_all()


def test_a_container_by_cdi_has_its_lease_with_the_user_and_is_shown_to_root(machine, observed):
    container = machine.by_cdi.start("amd.com/gpu=1")

    seen = machine.box.users() == {0: [], 1: [(container, ["cdi"])], 2: [], 3: []}
    observed(machine.name, machine.by_cdi.version(), CLAIMS, "yes" if seen else "no")
    assert seen
    assert machine.box.leases_of_the_user() == [container]
    assert machine.box.leases() == []
    machine.by_cdi.remove(container)
    assert machine.box.leases_of_the_user() == []
    assert machine.box.users() == {0: [], 1: [], 2: [], 3: []}


def test_a_container_by_environment_has_its_lease_with_the_user_and_is_shown_to_root(machine):
    container = machine.start_asking("1-2")

    assert machine.box.leases_of_the_user() == [container]
    assert machine.box.leases() == []
    assert machine.box.users() == {0: [], 1: [(container, ["env"])], 2: [(container, ["env"])], 3: []}
    machine.by_runtime.remove(container)
    assert machine.box.leases_of_the_user() == []


@pytest.mark.parametrize("taken", [True, False], ids=["taken", "free"])
def test_a_gpu_that_root_made_exclusive_is_refused(machine, observed, taken):
    holder = [(machine.of_root.start("amd.com/gpu=0"), ["cdi"])] if taken else []

    by_cdi = machine.by_cdi.run("amd.com/gpu=0", "true")
    by_environment = machine.by_runtime.start_plain("--env=AMD_VISIBLE_DEVICES=0,1", check=False)

    observed(machine.name, machine.by_cdi.version(), REFUSES, REASON_ELSEWHERE if by_cdi.returncode else "no")
    assert by_cdi.returncode != 0
    assert by_environment.returncode != 0
    assert f"amd-container-runtime: {EXCLUSIVE}" in by_environment.stderr
    # crun told what became of its hook, and not why.
    assert [message for _, message in machine.refusals_of_the_user()][-2:] == [EXCLUSIVE, EXCLUSIVE]
    assert machine.box.users() == {0: holder, 1: [], 2: [], 3: []}


def test_a_container_killed_with_nobody_to_notice_is_not_shown(machine):
    container = machine.by_cdi.start("amd.com/gpu=1")
    init = machine.by_cdi.init_of(container)

    # conmon dies first, so that nobody runs the hooks.
    machine.box("sh", "-c", f"kill -9 $(ps -o ppid= -p {init}) {init}")

    assert machine.box.users()[1] == []


def test_the_user_shares_with_root(machine):
    roots = machine.of_root.start("amd.com/gpu=1")
    users = machine.by_cdi.start("amd.com/gpu=1")

    assert machine.box.users()[1] == [(roots, ["cdi"]), (users, ["cdi"])]
    assert machine.box.leases() == [roots]
    assert machine.box.leases_of_the_user() == [users]


def test_a_gpu_that_the_user_has_is_not_made_exclusive(machine):
    container = machine.by_cdi.start("amd.com/gpu=1")

    assert machine.box.tracker("1-2", "exclusive") == (
        "GPUs [2] have been made exclusive\n"
        "GPUs [1] have not been made exclusive because a rootless container is using it\n"
    )
    machine.by_cdi.remove(container)
    assert machine.box.tracker("1", "exclusive") == "GPUs [1] have been made exclusive\n"
