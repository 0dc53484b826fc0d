"""What is given back is what the container had that is gone, and nothing of another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from amd_gpu_tracker.claims.release import Released, release

# Longer than what a file's name has of an id.
SAME = "a" * 100
LONG = "b" * 150


@pytest.fixture
def released(machine):
    """Return a function that releases a container id: the ids that were dropped, and those that live."""

    def run(container_id) -> tuple[list[str], list[str]]:
        found: Released = release(machine.book, container_id)
        return [lease.container_id for lease in found.dropped], [lease.container_id for lease in found.living]

    return run


@pytest.mark.parametrize("more", [1, 150])
def test_of_two_ids_that_begin_alike_only_the_one_that_is_gone_is_dropped(machine, released, more):
    gone, living, also_gone = (SAME + letter * more for letter in "xyz")
    inits = [machine.create(container_id, [0]) for container_id in (gone, living, also_gone)]
    machine.kill(inits[0])
    machine.kill(inits[2])

    assert released(gone) == ([gone], [])
    assert released(gone) == ([], [])
    assert released(living) == ([], [living])
    assert released(also_gone) == ([also_gone], [])
    assert len(machine.lease_files()) == 1


def test_a_long_id_under_a_long_root_is_found(machine, released):
    root = f"/run/{'r' * 60}"
    creator = machine.start_process()
    machine.claim(LONG, [0], creator=creator, root=root)
    machine.claim(LONG, [1], creator=creator, root="")
    machine.kill(creator)

    assert released(LONG) == ([LONG, LONG], [])
    assert machine.lease_files() == []


def test_a_broken_lease_goes_with_its_container(machine, released):
    machine.create("c1", [0])
    path = Path(machine.state.lease_path(("/run/runc", "c1")))
    path.write_bytes(b"{")

    assert released("c1") == ([], [])
    assert not path.exists()


def test_a_broken_lease_of_a_long_id_may_be_that_of_another_container(machine, released):
    gone, other = (SAME + letter * 150 for letter in "xy")
    machine.create(other, [0])
    path = Path(machine.state.lease_path(("/run/runc", other)))
    path.write_bytes(b"{")

    assert released(gone) == ([], [])
    assert path.exists()


def test_an_id_that_is_no_utf_8_is_claimed_and_released(machine, released):
    container_id = "\udcff" * 300
    creator = machine.start_process()
    machine.claim(container_id, [0], creator=creator)
    machine.kill(creator)

    assert released(container_id) == ([container_id], [])
