"""GPUs that kubelet has given to pods are taken, and lists name the pods."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.leases.container_names import find_pod_titles
from amd_gpu_tracker.leases.status import ContainerUse
from amd_gpu_tracker.pods.find import KubeletPods
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host
from support.enabled_tracker import enable
from support.kubelet import Kubelet

pytestmark = pytest.mark.needs("root")


@pytest.fixture
def short():
    """Return a short directory: the path of a socket has at most 107 bytes."""
    directory = tempfile.mkdtemp(prefix="amd-")
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def host(short):
    built = build_host(f"{short}/h", "mi210-4")
    enable(built)
    return built


@pytest.fixture
def kubelet(host):
    made = Kubelet(host)
    yield made
    made.close()


def test_a_gpu_of_a_pod_that_has_not_started_is_taken(host, kubelet):
    kubelet.devices = (str(locate_gpus(host)[2].pci_address),)
    tracker = Tracker(host)

    taken = tracker.states()[2]

    assert (taken.state, taken.person, taken.what) == ("reserved", "team-a/train-0", "main")
    with pytest.raises(GpusRefused) as refused:
        Tracker(host).reserve("free:4", name="train")
    assert "3 of 4 GPUs are free (2 given to pod team-a/train-0 by kubelet)" in refused.value.message
    assert Tracker(host).reserve("free:3", name="train").numbers == (0, 1, 3)


def test_an_exclusive_gpu_of_a_pod_is_refused_by_its_number_and_a_shared_one_is_not(host, kubelet):
    kubelet.devices = (str(locate_gpus(host)[2].pci_address),)
    tracker = Tracker(host)

    assert tracker.reserve("2", name="shared").numbers == (2,)
    tracker.release("shared")
    tracker.set_accessibility("2", exclusive=True)
    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("1,2", name="train")

    assert refused.value.message == "GPU 2 is exclusive and given to pod team-a/train-0 by kubelet"


def test_a_pod_has_all_of_a_gpu_and_nobody_a_part_beside_it(host, kubelet):
    kubelet.devices = (str(locate_gpus(host)[2].pci_address),)
    tracker = Tracker(host)
    tracker.reserve("2", name="whole")
    tracker.release("whole")
    for number in (0, 1, 3):
        tracker.reserve(str(number), name=f"whole{number}")

    for request, said in (
        ("2", "GPU 2 is given to pod team-a/train-0 by kubelet"),
        ("auto:1", "2 given to pod team-a/train-0 by kubelet"),
    ):
        with pytest.raises(GpusRefused) as refused:
            Tracker(host).reserve(request, name="part", vram_mb=1000)
        assert said in refused.value.message


def test_a_pod_that_comes_to_the_gpu_of_a_part_takes_what_is_left(host, kubelet):
    tracker = Tracker(host)
    tracker.reserve("2", name="first", vram_mb=1000)
    kubelet.devices = (str(locate_gpus(host)[2].pci_address),)

    assert Tracker(host).reserve("auto:1", name="part", vram_mb=1000).numbers == (0,)


def test_a_device_that_is_none_of_this_host_takes_no_gpu_away_and_is_shown(host, kubelet):
    kubelet.devices = ("0000:ff:00.0", "\x1b[31mred")
    tracker = Tracker(host)

    assert [gpu.state for gpu in tracker.states()] == ["free"] * 4

    assert tracker.pod_notes() == [
        "pod team-a/train-0 has 0000:ff:00.0, which is none of this host's GPUs",
        "pod team-a/train-0 has ?[31mred, which is none of this host's GPUs",
    ]


def test_kubelet_is_asked_once_in_two_seconds(host, kubelet):
    now = [100.0]
    pods = KubeletPods(host, clock=lambda: now[0])

    for moment in (100.0, 101.9, 102.1, 103.0):
        now[0] = moment
        pods.by_gpu()

    assert kubelet.calls == 2


def test_partitions_have_the_names_of_their_devices(short):
    host = build_host(f"{short}/h", "mi308x-8-cpx")
    made = Kubelet(host)
    made.devices = ("amdgpu_xcp_0", str(locate_gpus(host)[0].pci_address))

    found = KubeletPods(host).by_gpu()

    made.close()
    address = locate_gpus(host)[0].pci_address
    assert sorted(found) == [f"{address}/0", f"{address}/1"]


def test_a_host_without_kubelet_has_no_pods(host):
    assert KubeletPods(host).by_gpu() == {}
    assert Tracker(host).pod_notes() == []


@pytest.mark.parametrize(
    "annotations",
    [
        {"io.kubernetes.cri.sandbox-namespace": "team-a", "io.kubernetes.cri.sandbox-name": "train-0"},
        {"io.kubernetes.pod.namespace": "team-a", "io.kubernetes.pod.name": "train-0"},
    ],
)
def test_the_pod_of_a_container_stands_in_its_annotations(tmp_path, annotations):
    Path(tmp_path / "config.json").write_text(json.dumps({"annotations": annotations}))
    use = ContainerUse(container_id="c1", root="", bundle=str(tmp_path), since=0.0, ways=(), user=None)

    assert find_pod_titles([use]) == {"c1": "team-a/train-0"}
    # A user's own engine may write any pod.
    assert find_pod_titles([use.replace(user=40001)]) == {}
