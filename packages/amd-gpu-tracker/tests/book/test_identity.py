"""Whether GPUs are those of the policy is looked up again whenever they may have become others, and only then."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from amd_gpu_tracker.errors import GpusChanged


@pytest.fixture
def claimed(machine_of):
    """Return eight MI300X of which one was claimed, so that they are known, and change one behind KFD's back."""
    machine = machine_of("mi300x-8")
    machine.tracker.enable()
    machine.create("c1", [0])
    address = machine.tracker.status().gpus[0].pci_address
    file = machine.host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/current_memory_partition")
    Path(file).write_text("NPS4\n")
    return machine


def load_driver_again(machine):
    nodes = machine.host.path("/sys/class/kfd/kfd/topology/nodes")
    shutil.copytree(nodes, f"{nodes}.new", symlinks=True)
    os.rename(nodes, f"{nodes}.old")
    os.rename(f"{nodes}.new", nodes)


def write_policy_again(machine):
    policy = machine.state.read_policy()
    machine.state.write_policy(policy.with_accessibility([policy.gpus[5].key], exclusive=True))


def spoil_the_stamp(machine):
    Path(machine.state.stamp_path).write_bytes(b"\xff")


def lose_the_stamp(machine):
    os.unlink(machine.state.stamp_path)


def lose_the_generation(machine):
    os.unlink(machine.host.path("/sys/class/kfd/kfd/topology/generation_id"))


def test_nothing_is_read_again_while_nothing_can_have_changed(claimed):
    claimed.create("c2", [0])

    assert sorted(claimed.lease_files()) == ["c1@%2Frun%2Frunc.json", "c2@%2Frun%2Frunc.json"]


@pytest.mark.parametrize(
    "change",
    [
        load_driver_again,
        write_policy_again,
        spoil_the_stamp,
        lose_the_stamp,
        lose_the_generation,
        lambda machine: machine.count_generation(),
        lambda machine: machine.boot(),
    ],
)
def test_other_gpus_are_noticed_as_soon_as_there_can_be_others(claimed, change):
    change(claimed)

    for name in ("c2", "c3"):
        with pytest.raises(GpusChanged):
            claimed.create(name, [0])


def test_the_status_says_it_at_once(claimed):
    with pytest.raises(GpusChanged):
        claimed.tracker.status()


def test_where_nothing_can_be_written_down_claims_are_met_all_the_same(machine):
    os.makedirs(machine.state.stamp_path)

    machine.create("c1", [0])
    machine.create("c2", [1])

    assert sorted(machine.lease_files()) == ["c1@%2Frun%2Frunc.json", "c2@%2Frun%2Frunc.json"]
    assert [name for name in os.listdir(machine.state.run_directory) if name.endswith(".tmp")] == []


def test_gpus_that_were_located_before_a_repartition_are_not_claimed_after_it(machine_of, tmp_path):
    machine = machine_of("mi300x-8-cpx")
    machine.tracker.enable()
    creator, claim = machine.start_process(), machine.claim_of("late", [5])
    repartitioned = machine_of("mi300x-8", tmp_path / "after")
    for name in ("sys", "dev"):
        shutil.rmtree(machine.host.path(f"/{name}"))
        os.rename(repartitioned.host.path(f"/{name}"), machine.host.path(f"/{name}"))
    machine.tracker.reset()

    with pytest.raises(GpusChanged):
        claim(creator)

    assert machine.lease_files() == []


def test_a_policy_behind_a_link_is_watched(claimed):
    path = Path(claimed.state.policy_path)
    path.rename(path.with_name("real.json"))
    path.symlink_to("real.json")
    claimed.tracker.reset()
    claimed.create("c3", [0])

    other = path.read_text().replace("nps4", "nps2")
    path.with_name("other.json").write_text(other)
    path.with_name("other.json").rename(path.with_name("real.json"))

    with pytest.raises(GpusChanged):
        claimed.create("c4", [0])
