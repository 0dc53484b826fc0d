"""What a container of a real Docker engine sees, and what its device cgroup lets it open."""

from __future__ import annotations

import pytest

from support.seen import SeenNode, parse_seen, paths

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

KFD = SeenNode("/dev/kfd", "511:0", "666", "0:110", "opens")
GPU_0 = [
    SeenNode("/dev/dri/card1", "226:1", "666", "0:44", "opens"),
    SeenNode("/dev/dri/renderD128", "226:128", "666", "0:110", "opens"),
]
GPU_1 = [
    SeenNode("/dev/dri/card9", "226:9", "666", "0:44", "opens"),
    SeenNode("/dev/dri/renderD136", "226:136", "666", "0:110", "opens"),
]
GPU_2 = [
    SeenNode("/dev/dri/card17", "226:17", "666", "0:44", "opens"),
    SeenNode("/dev/dri/renderD144", "226:144", "666", "0:110", "opens"),
]
# Every number the DRM subsystem has on that host, partitions in waiting and the service processor's display included.
DRM_NUMBERS = [f"226:{minor}" for minor in (*range(65), *range(128, 192))]


@pytest.mark.parametrize(
    ("request_", "nodes"),
    [
        ("0", [KFD, *GPU_0]),
        ("0-2", [KFD, *GPU_0, *GPU_1, *GPU_2]),
        ("2,0", [KFD, *GPU_0, *GPU_2]),
        (" 1 , 1-2 ", [KFD, *GPU_1, *GPU_2]),
        ("0x2250F807CAF2231A", [KFD, *GPU_1]),
        ("GPU-2250f807caf2231a", [KFD, *GPU_1]),
        ("0000:47:00.0", [KFD, *GPU_2]),
        ("amd.com/gpu=1", [KFD, *GPU_1]),
        ("none", []),
        ("void", []),
        ("", []),
    ],
)
def test_a_container_sees_the_gpus_it_asked_for_and_no_other(see, request_, nodes):
    assert sorted(see(request_)) == sorted(nodes)


def test_all_are_eight_gpus_and_one_kfd(see):
    nodes = paths(see("all"))

    assert len(nodes) == 17
    assert nodes[0] == "/dev/kfd"
    assert sorted(nodes[1:]) == sorted(
        f"/dev/dri/{kind}{first + 8 * gpu}" for gpu in range(8) for kind, first in (("card", 1), ("renderD", 128))
    )


@pytest.mark.parametrize(
    ("user", "nodes"),
    [
        ("AMD_VISIBLE_DEVICES=0", [KFD, *GPU_0]),
        ("AMD_VISIBLE_DEVICES=none", []),
        # As AMD's guide has it: the user gives what Swarm would give.
        ("DOCKER_RESOURCE_GPU=0x2250F807CAF2231A", [KFD, *GPU_1]),
    ],
)
def test_an_image_that_asks_for_all_gpus_in_swarms_name_does_not_beat_its_user(docker, image_archive, user, nodes):
    image_says = ("DOCKER_RESOURCE_GPU=all", "DOCKER_RESOURCE_AMD_GPU=0000:47:00.0", "DOCKER_RESOURCE_X=0000:47:00.0")
    changes = [f"--change=ENV {variable}" for variable in image_says]
    docker("import", *changes, str(image_archive), "greedy:local")

    seen = docker.output("--runtime=amd", f"--env={user}", image="greedy:local", command=("list-gpus",))

    assert sorted(parse_seen(seen)) == sorted(nodes)


def test_a_container_that_asks_for_nothing_gets_nothing(docker):
    assert docker.output("--runtime=amd", command=("list-gpus",)) == ""


def test_asking_under_plain_runc_gives_nothing(docker):
    assert docker.output("--env=AMD_VISIBLE_DEVICES=all", command=("list-gpus",)) == ""


def test_the_cgroup_allows_the_numbers_of_its_gpus_and_no_other(run):
    tried = parse_seen(run("0,2", "try-numbers", *DRM_NUMBERS, "511:0"))

    assert {node.access for node in tried} == {"opens", "refused-by-cgroup"}
    assert [node.numbers for node in tried if node.access == "opens"] == [
        "226:1",
        "226:17",
        "226:128",
        "226:144",
        "511:0",
    ]


def test_the_cgroup_of_a_container_without_gpus_allows_none(run):
    tried = parse_seen(run("none", "try-numbers", *DRM_NUMBERS, "511:0"))

    assert {node.access for node in tried} == {"refused-by-cgroup"}


def test_a_user_who_is_not_root_opens_its_gpus(see):
    assert sorted(see("0", "--user=1000:1000")) == sorted([KFD, *GPU_0])


def test_a_user_who_is_not_root_opens_its_gpus_in_exec(docker, start):
    container = start("0", "--user=1000:1000")

    seen = parse_seen(docker("exec", container, "list-gpus").stdout)

    assert sorted(seen) == sorted([KFD, *GPU_0])


def test_another_user_of_exec_opens_them_too(docker, start):
    container = start("0")

    seen = parse_seen(docker("exec", "--user=2000:2000", container, "list-gpus").stdout)

    assert sorted(seen) == sorted([KFD, *GPU_0])


def test_two_containers_at_once_see_their_own(docker, start):
    first, second = start("0"), start("1,2")

    seen = [paths(parse_seen(docker("exec", container, "list-gpus").stdout)) for container in (first, second)]

    assert seen == [
        ["/dev/kfd", "/dev/dri/card1", "/dev/dri/renderD128"],
        ["/dev/kfd", "/dev/dri/card17", "/dev/dri/card9", "/dev/dri/renderD136", "/dev/dri/renderD144"],
    ]
