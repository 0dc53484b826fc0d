"""Kubernetes by way of containerd's CRI: pods of the handler `amd`, and CDI devices without it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from support.cri import CONTAINER_IMAGE, PAUSE_IMAGE, Kubernetes
from support.docker import EngineError
from support.oci_archive import pack_oci
from support.seen import SeenNode

pytestmark = [pytest.mark.e2e, pytest.mark.engines]

SUITES = {"containerd 1.7": "trixie", "containerd 2.1": "forky"}
ASKING_FOR_0 = [("AMD_VISIBLE_DEVICES", "0")]
# GPU 0 of mi210-4.
GPU_0 = [
    SeenNode("/dev/kfd", "510:0", "666", "0:110", "opens"),
    SeenNode("/dev/dri/card3", "226:3", "666", "0:44", "opens"),
    SeenNode("/dev/dri/renderD130", "226:130", "666", "0:110", "opens"),
]
# Ids of the host that a user namespace does not know.
NOBODY = "65534:65534"


@pytest.fixture(scope="module", params=SUITES)
def node(request, make_box, tmp_path_factory, image_archive):
    """Return a node with four MI210, on which the tracker is enabled."""
    directory = tmp_path_factory.mktemp("kubernetes")
    with ExitStack() as stack:
        box = stack.enter_context(make_box(SUITES[request.param], directory))
        pack_oci(image_archive, box.share / "oci.tar", CONTAINER_IMAGE)
        pack_oci(image_archive, box.share / "pause.tar", PAUSE_IMAGE, ("sleep", "600"))
        node = Kubernetes(box)
        stack.callback(node.close)
        yield node


@pytest.fixture
def pod(node):
    """Return a pod whose RuntimeClass is `amd`."""
    with node.start_pod() as pod:
        yield pod


@pytest.mark.parametrize("user", [0, 1000])
def test_the_handler_gives_the_gpu_that_the_environment_names(pod, user):
    assert pod.see(pod.start(environment=ASKING_FOR_0, user=user)) == GPU_0


def test_the_device_cgroup_refuses_the_other_gpus(pod):
    container = pod.start(environment=ASKING_FOR_0)

    assert [seen.access for seen in pod.see(container, "try-numbers", "226:128", "226:130")] == [
        "refused-by-cgroup",
        "opens",
    ]


def test_a_pod_that_asks_for_nothing_has_no_gpu(pod):
    assert pod.see(pod.start()) == []


def test_a_gpu_that_does_not_exist_is_refused_in_the_words_of_the_runtime(pod):
    with pytest.raises(EngineError, match="GPU 9"):
        pod.start(environment=[("AMD_VISIBLE_DEVICES", "9")])


@pytest.mark.parametrize("handler", ["amd", "runc"])
@pytest.mark.parametrize("user", [0, 1000])
def test_cdi_devices_need_no_handler(node, handler, user):
    with node.start_pod(handler=handler) as pod:
        assert pod.see(pod.start(cdi_devices=["amd.com/gpu=0"], user=user)) == GPU_0


def test_a_device_plugins_nodes_stay(pod):
    """AMD's device plugin names nodes and no variable."""
    container = pod.start(devices=["/dev/kfd", "/dev/dri/renderD130"])

    assert [(seen.path, seen.access) for seen in pod.see(container)] == [
        ("/dev/kfd", "opens"),
        ("/dev/dri/renderD130", "opens"),
    ]


@pytest.mark.parametrize("user", [0, 1000])
def test_a_pod_with_a_user_namespace_opens_the_gpu_that_its_environment_names(node, user):
    with node.start_pod(user_namespace=True) as pod:
        seen = pod.see(pod.start(environment=ASKING_FOR_0, user=user))

        assert seen == [node._replace(owner=NOBODY) for node in GPU_0]


def test_a_pod_with_a_user_namespace_has_cdi_devices_with_the_mode_of_the_host(node):
    """runc binds the nodes of the host there, and nobody of the namespace is in their group."""
    with node.start_pod(user_namespace=True) as pod:
        seen = pod.see(pod.start(cdi_devices=["amd.com/gpu=0"]))

        assert seen == [node._replace(mode="660", owner=NOBODY, access="refused-by-mode") for node in GPU_0]


def test_the_tracker_sees_pods_and_refuses_an_exclusive_gpu_in_use(node, pod):
    node.box.tracker("0", "exclusive")
    first = pod.start(environment=ASKING_FOR_0)

    assert node.box.users()[0] == [(first, ["env"])]
    with pytest.raises(EngineError, match=r"GPUs \[0\] are exclusive and already in use"):
        pod.start(environment=ASKING_FOR_0)
    with pytest.raises(EngineError, match=r"GPUs \[0\] are exclusive and already in use"):
        pod.start(cdi_devices=["amd.com/gpu=0"])

    pod.remove(first)
    assert pod.see(pod.start(environment=ASKING_FOR_0)) == GPU_0
    node.box.tracker("reset")


def test_containers_of_a_pod_share_an_exclusive_gpu_where_pods_have_them(node, pod):
    node.box.tracker("0", "exclusive")
    node.box.tracker("holder", "pod")

    first = pod.start(environment=ASKING_FOR_0)
    second = pod.start(cdi_devices=["amd.com/gpu=0"])

    assert node.box.users()[0] == [(first, ["env"]), (second, ["cdi"])]
    with node.start_pod() as other, pytest.raises(EngineError, match=r"GPUs \[0\] are exclusive and already in use"):
        other.start(environment=ASKING_FOR_0)
    node.box.tracker("holder", "container")
    node.box.tracker("reset")
