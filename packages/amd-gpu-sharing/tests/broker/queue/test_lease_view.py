"""What the broker reads from the leases."""

from __future__ import annotations

import pytest

from amd_gpu_sharing.broker.queue.lease_view import read_view
from amdgpu_discovery.numbering import locate_gpus


@pytest.fixture
def exclusive(machine):
    """Return four MI210 of which all are exclusive."""
    machine.tracker.set_accessibility("all", exclusive=True)
    return machine


def give_limit(machine, container_id: str, limit: float) -> None:
    for path in machine.state.lease_paths():
        lease = machine.state.read_lease(path)
        if lease.container_id == container_id:
            machine.state.write_lease(lease.replace(limit=limit))


def test_a_gpu_is_free_at_the_limit_of_its_job_and_has_no_end_without_one(exclusive):
    exclusive.create("limited", [0])
    exclusive.create("unlimited", [1])
    give_limit(exclusive, "limited", 1e9)

    assert read_view(exclusive.state, exclusive.processes).ends == {0: 1e9}


def test_the_limit_of_a_job_with_a_lost_gpu_is_the_end_of_its_other_gpu(exclusive):
    exclusive.create("limited", [2, 3])
    give_limit(exclusive, "limited", 1e9)
    exclusive.lose(3)

    assert read_view(exclusive.state, exclusive.processes).ends == {2: 1e9}


def test_gpus_that_kubelet_has_given_to_pods_are_not_free(exclusive):
    gpus = locate_gpus(exclusive.host)

    view = read_view(exclusive.state, exclusive.processes, [gpus[2].key])

    assert (view.in_pods, view.free & 0b100) == (0b100, 0)
    assert view.free & 0b011 == 0b011
