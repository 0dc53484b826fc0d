"""Containers with user ids of their own under a real kernel: Docker's userns-remap, Podman's map of ids, no root."""

from __future__ import annotations

import pytest

from kernel.containers import FIRST, ON_SIMULATED_HOST, SECOND
from kernel.engines import IMAGE, PODMANS_RUNTIME, RUN_IN_DOCKER, UNTRACKED, UNTRACKED_RUNTIME, start_docker

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(2 * 3600)]

# A user namespace cannot make nodes. These are open to all, so that the device cgroup alone refuses them.
OPEN_TO_ALL = "--volume=/srv/nodes:/nodes"
THE_OTHER = "/nodes/226:129"
IDS = "--uidmap=0:300000:65536 --gidmap=0:300000:65536"
KEEP_GROUPS = "--group-add=keep-groups"
AS_USER = "su user -c"


@pytest.fixture(scope="module", autouse=True)
def open_nodes(machine):
    """Make a node of the second GPU that all may open."""
    machine.run("mkdir -p /srv/nodes && cd /srv/nodes && { [ -e 226:129 ] || mknod -m 666 226:129 c 226 129; }")


@pytest.fixture(scope="module")
def remapped(machine):
    """Return a function that runs a container with a Docker whose containers have user ids of their own."""
    command = start_docker(machine, "docker-remapped", "--userns-remap=default")
    return lambda words: machine.run(f"{command} {RUN_IN_DOCKER} {words}", check=False)


def test_a_remapped_container_of_docker_opens_its_gpu_and_is_refused_every_other(remapped):
    command = f"open-nodes {FIRST} {THE_OTHER}"

    seen = remapped(f"{OPEN_TO_ALL} -e AMD_VISIBLE_DEVICES=0 {IMAGE} sh -c '{command}; {AS_USER} \"{command}\"'")

    assert seen == 2 * f"{FIRST} opens\n{THE_OTHER} Operation not permitted\n"


@pytest.mark.parametrize(("low_level", "user"), [("runc", 0), ("crun", 1000)])
def test_a_container_of_podman_with_a_map_of_ids_opens_its_gpu_and_is_refused_every_other(
    machine, podman, low_level, user
):
    machine.run(f"{ON_SIMULATED_HOST} amd-ctk config set low-level-runtime $(command -v {low_level})")
    words = f"--runtime={PODMANS_RUNTIME} --user={user} {IDS} {OPEN_TO_ALL} -e AMD_VISIBLE_DEVICES=0"

    seen = podman(f"{words} localhost/{IMAGE} open-nodes {FIRST} {THE_OTHER}")

    assert seen == f"{FIRST} opens\n{THE_OTHER} Operation not permitted\n"


# What the pages say of CDI there: crun makes nodes that are open to all, and runc binds the host's.
@pytest.mark.parametrize(("low_level", "said"), [("crun", "opens"), ("runc", "Permission denied")])
def test_cdi_with_a_map_of_ids_opens_the_gpu_under_crun_alone(podman, cdi, low_level, said):
    seen = podman(f"--runtime={low_level} {IDS} --device=amd.com/gpu=0 localhost/{IMAGE} open-nodes {FIRST}")

    assert seen == f"{FIRST} {said}\n"


def test_a_rootless_container_opens_its_gpu_with_the_groups_of_its_user_and_makes_no_other(rootless):
    command = f"ls /dev/dri; open-nodes {FIRST}; open-numbers 226:129"

    seen = rootless(f"--device={UNTRACKED}=0 {KEEP_GROUPS} --cap-add=mknod localhost/{IMAGE} sh -c '{command}'")

    assert seen.splitlines() == [
        *("card0", "renderD128", f"{FIRST} opens"),
        "mknod: /tmp/226:129: Operation not permitted",
    ]


def test_a_rootless_container_without_these_groups_may_not_open_it(rootless):
    assert rootless(f"--device={UNTRACKED}=0 localhost/{IMAGE} open-nodes {FIRST}") == f"{FIRST} Permission denied\n"


def test_a_rootless_container_opens_a_node_that_is_open_to_all(machine, rootless):
    machine.run(f"chmod 666 {FIRST}")
    try:
        seen = rootless(f"--device={UNTRACKED}=0 localhost/{IMAGE} open-nodes {FIRST}")
    finally:
        machine.run(f"chmod 660 {FIRST}")

    assert seen == f"{FIRST} opens\n"


def test_a_rootless_container_of_the_amd_runtime_opens_its_gpu(rootless):
    seen = rootless(
        f"--runtime={UNTRACKED_RUNTIME} {KEEP_GROUPS} -e AMD_VISIBLE_DEVICES=1 localhost/{IMAGE}"
        f" sh -c 'ls /dev/dri; open-nodes {SECOND}'"
    )

    assert seen == f"card1\nrenderD129\n{SECOND} opens\n"
