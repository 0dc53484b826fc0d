"""People and kubelet share a server: the line passes over GPUs that kubelet has given to pods."""

from __future__ import annotations

import pytest

from amdgpu_discovery.numbering import locate_gpus
from support.kubelet import Kubelet
from support.shared_host import ALICE, run


@pytest.mark.needs("users' processes")
def test_a_job_waits_for_a_gpu_that_kubelet_has_given_to_a_pod(host, request, broker, person):
    kubelet = Kubelet(host)
    request.addfinalizer(kubelet.close)
    kubelet.devices = (str(locate_gpus(host)[2].pci_address),)

    alice = person(ALICE, run("wide", "free:8"))

    assert alice.line() == "waiting for 8 GPUs: 7 free of 8, GPU 2 given to pods"
    kubelet.devices = ()
    assert alice.answer() == "got (0, 1, 2, 3, 4, 5, 6, 7)"
