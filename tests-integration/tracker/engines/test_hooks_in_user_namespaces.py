"""CDI devices of containers with a user namespace of their own are tracked, as `toolbox` and `distrobox` make them."""

from __future__ import annotations

import pytest

from support.box import USER
from support.cdi_engines import PodmanInBox

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

SUITES = {"Podman 5.8": "forky", "Podman 5.4": "trixie", "Podman 4.3": "bookworm"}
OF_ROOT = ("--userns=auto", "--uidmap=0:300000:5000")
OF_A_USER = ("--userns=keep-id", "--userns=auto", "--userns=nomap", "--uidmap=0:1:5000")
# Of whom Podman of root takes ids for --userns=auto.
ADD_CONTAINERS = """
id containers >/dev/null 2>&1 && exit
useradd --system --no-create-home containers
for ids in /etc/subuid /etc/subgid; do echo containers:400000:1000000 >>$ids; done
"""
CASES = [
    (name, runtime, user, option)
    for name in SUITES
    for runtime in ("crun", "runc")
    for user, options in (("", OF_ROOT), (USER, OF_A_USER))
    for option in options
]


@pytest.fixture(scope="module")
def podmans(box):
    """Return a function that gives a Podman, of root or of a user, with GPU 0 exclusive and none in use."""
    made = {}

    def find(name, runtime, user):
        if (name, runtime, user) not in made:
            machine = box(SUITES[name])
            machine("sh", "-c", ADD_CONTAINERS)
            made[name, runtime, user] = PodmanInBox(machine, user=user, runtime=runtime)
        return made[name, runtime, user]

    return find


@pytest.fixture
def podman(request, podmans):
    name, runtime, user = request.param
    found = podmans(name, runtime, user)
    found.box.tracker("enable")
    found.box.tracker("reset")
    found.box.tracker("0", "exclusive")
    yield found
    found.remove("--all")


@pytest.mark.parametrize(
    ("podman", "option"),
    [((name, runtime, user), option) for name, runtime, user, option in CASES],
    indirect=["podman"],
    ids=[f"{name}, {runtime}, {user or 'root'}, {option}" for name, runtime, user, option in CASES],
)
def test_a_container_claims_its_gpus_and_gives_them_back(podman, option):
    container = podman.start("amd.com/gpu=1", options=("--device=amd.com/gpu=2", option))

    by_cdi = [(container, ["cdi"])]
    assert podman.box.users() == {0: [], 1: by_cdi, 2: by_cdi, 3: []}
    podman.remove(container)
    assert podman.box.users() == {0: [], 1: [], 2: [], 3: []}


@pytest.mark.parametrize(
    ("podman", "option"),
    [((name, "crun", ""), "--uidmap=0:300000:5000") for name in SUITES],
    indirect=["podman"],
    ids=SUITES,
)
def test_an_exclusive_gpu_in_use_is_refused_whatever_file_the_image_has(podman, option):
    holder = podman.start("amd.com/gpu=0")
    # As if the image had a spec without GPUs in its own root.
    no_gpus = "--volume=/dev/null:/config.json"

    refused = podman.run("amd.com/gpu=0", "true", options=(option, no_gpus))

    assert refused.returncode != 0
    assert podman.box.users() == {0: [(holder, ["cdi"])], 1: [], 2: [], 3: []}
