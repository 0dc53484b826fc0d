"""GPUs that kubelet has given to pods: the service asks kubelet, and gives them to nobody."""

from __future__ import annotations

import pytest

from amdgpu_discovery.numbering import locate_gpus
from support.kubelet import Kubelet
from support.shared_host import ALICE, BOB, run, users


@pytest.fixture
def kubelet(host):
    """Return a kubelet that has given GPU 3 to a pod whose container has not started."""
    made = Kubelet(host)
    made.devices = (str(locate_gpus(host)[3].pci_address),)
    yield made
    made.close()


def test_a_choice_of_free_gpus_leaves_out_that_of_a_pod(host, kubelet, broker, person):
    refused = person(ALICE, run("wide", "free:8", wait=False)).line()

    assert refused.startswith("1: free:8: 7 of 8 GPUs are free (3 given to pod team-a/train-0 by kubelet)")
    assert person(ALICE, run("train", "free:7", wait=False)).line() == "got (0, 1, 2, 4, 5, 6, 7)"
    assert 3 not in users(host)


def test_the_gpu_of_a_pod_is_refused_by_its_number(host, kubelet, broker, person):
    refused = person(ALICE, run("train", "3", wait=False)).line()

    assert refused == "1: GPU 3 is exclusive and given to pod team-a/train-0 by kubelet"
    assert users(host) == {}


def test_a_job_waits_for_the_gpu_of_a_pod_until_kubelet_has_it_back(kubelet, broker, person):
    bob = person(BOB, run("next", "3"))
    assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits, GPU 3 given to pods"

    kubelet.devices = ()

    assert bob.answer() == "got (3,)"
