"""Memory of GPUs that Docker Swarm promises: placed on one GPU, never promised twice, given back."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amd_gpu_tracker.book.lock import LibraryLock
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.chosen import preview_chosen, reserve_chosen
from amd_gpu_tracker.claims.claim import Book, Claim
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.claims.vram import MemoryChooser
from amd_gpu_tracker.errors import GpusRefused, StateError
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.gpu import MEBIBYTE
from amdgpu_discovery.numbering import locate_gpus

# Of four MI210.
VRAM_MB = 65520


def claim_of_memory(machine, container_id, mib, *, kind="VRAM", creator=None):
    """Return what the runtime claims for a task to which Swarm promised memory."""
    return Claim(
        holder=machine.holder(container_id, creator=creator or machine.start_process()),
        wanted=(),
        ways=("swarm",),
        kinds=(kind,),
        vram_mb=mib,
    )


@pytest.fixture
def swarm(machine):
    """Return a function that reserves memory for a task as the runtime does, and gives the number of its GPU."""

    def reserve_memory(container_id, mib, *, kind="VRAM", sizes=(VRAM_MB,) * 4, creator=None):
        gpus = [
            gpu.replace(vram_bytes=size * MEBIBYTE) for gpu, size in zip(find_gpus(machine.host), sizes, strict=True)
        ]
        claim = claim_of_memory(machine, container_id, mib, kind=kind, creator=creator)
        chosen = reserve_chosen(machine.book, claim, MemoryChooser(claim, gpus))
        return None if chosen is None else chosen[0].number

    return reserve_memory


@pytest.fixture
def whole(machine):
    """Return a function that reserves whole GPUs that Swarm has named by resources of some kinds."""

    def reserve_whole(container_id, numbers, *kinds):
        gpus = locate_gpus(machine.host)
        claim = Claim(
            holder=machine.holder(container_id, creator=machine.start_process()),
            wanted=[gpus[number] for number in numbers],
            ways=("swarm",),
            kinds=kinds,
        )
        return reserve(machine.book, claim)

    return reserve_whole


def test_tasks_fill_the_gpu_that_has_least_to_spare(swarm):
    assert [swarm("a", 40000), swarm("b", 30000), swarm("c", 20000), swarm("d", 30000)] == [0, 1, 0, 1]
    assert swarm("e", 5520) == 0


def test_a_preview_has_the_gpu_that_would_be_chosen(machine, swarm):
    swarm("a", 40000)
    claim = claim_of_memory(machine, "b", 30000)

    chosen = preview_chosen(machine.book, claim, MemoryChooser(claim, find_gpus(machine.host)))

    assert [gpu.number for gpu in chosen] == [1]
    assert machine.users() == {0: ["a"], 1: [], 2: [], 3: []}


def test_status_shows_what_was_promised(machine, swarm):
    swarm("a", 40000)

    (use,) = machine.tracker.status().gpus[0].containers
    assert (use.container_id, use.ways, use.kinds, use.vram_mb) == ("a", ("swarm",), ("VRAM",), 40000)


def test_a_gpu_that_is_used_whole_gives_no_memory(machine, swarm, whole):
    machine.create("plain", [0])
    whole("task", [1], "AMD_GPU")

    assert swarm("a", 100) == 2


def test_memory_of_the_dead_is_free_again(machine, swarm):
    creator = machine.start_process()
    swarm("a", 60000, creator=creator)
    machine.kill(creator)

    assert swarm("b", 60000) == 0
    assert machine.users() == {0: ["b"], 1: [], 2: [], 3: []}


def test_a_task_that_runs_already_gets_nothing_more(swarm):
    assert swarm("a", 40000) == 0
    assert swarm("a", 40000) is None


def test_a_pool_that_is_large_enough_does_not_help_where_no_gpu_is(machine, swarm):
    for task in range(4):
        swarm(f"t{task}", 50000 + task)

    with pytest.raises(GpusRefused) as refusal:
        swarm("late", 20000)

    assert str(refusal.value) == (
        "DOCKER_RESOURCE_VRAM=20000: no GPU has that much free memory: 62074 MiB free on this node, at most 15520 MiB"
        " on one GPU (GPU 0) (run 'amd-ctk swarm status' to see which containers use the GPUs)"
    )
    assert [(r.container_id, r.ways) for r in machine.tracker.refusals()] == [("late", ("swarm",))]
    assert machine.users() == {0: ["t0"], 1: ["t1"], 2: ["t2"], 3: ["t3"]}


def test_where_nothing_is_free_no_pool_is_counted(swarm, whole):
    whole("task", [0, 1, 2, 3], "AMD_GPU")

    with pytest.raises(GpusRefused, match=r"^DOCKER_RESOURCE_VRAM=1: no GPU has that much free memory \("):
        swarm("late", 1)


def test_more_than_any_gpu_has_is_refused(swarm):
    with pytest.raises(GpusRefused) as refusal:
        swarm("a", VRAM_MB + 1)

    assert str(refusal.value) == (
        "DOCKER_RESOURCE_VRAM=65521 is more than any GPU of this node has, the largest has 65520 MiB"
        " (reserve whole GPUs by name instead)"
    )


def test_gpus_of_different_sizes_are_filled_from_the_smallest(swarm):
    sizes = (65520, 8000, 0, 16000)

    assert [swarm(name, 5000, sizes=sizes) for name in "abcd"] == [1, 3, 3, 3]


def test_an_exclusive_gpu_has_one_task(machine, swarm):
    machine.tracker.set_accessibility("0-2", exclusive=True)

    assert [swarm(name, 1000) for name in "abcd"] == [0, 1, 2, 3]
    assert swarm("e", 1000) == 3


def test_where_all_gpus_are_drained_there_is_no_memory(machine, swarm):
    machine.tracker.drain("all")

    with pytest.raises(GpusRefused, match="DOCKER_RESOURCE_VRAM=1000: no GPU has that much free memory"):
        swarm("a", 1000)


def test_without_the_tracker_no_memory_is_promised(untracked):
    holder = untracked.holder("a", creator=untracked.start_process())
    claim = Claim(holder=holder, wanted=(), ways=("swarm",), kinds=("VRAM",), vram_mb=4000)

    with pytest.raises(GpusRefused) as refusal:
        reserve_chosen(untracked.book, claim, MemoryChooser(claim, find_gpus(untracked.host)))

    assert str(refusal.value) == (
        "DOCKER_RESOURCE_VRAM=4000: memory can be reserved only while the GPU Tracker is enabled"
        " (run 'sudo amd-ctk swarm setup --vram', or 'sudo amd-ctk gpu-tracker enable')"
    )
    assert not os.path.exists(untracked.state.run_directory)


def test_a_lease_that_cannot_be_read_may_have_any_memory(machine, swarm):
    swarm("a", 1000)
    with open(machine.state.lease_paths()[0], "w", encoding="utf-8") as lease:
        lease.write("{")

    with pytest.raises(StateError, match="cannot be understood"):
        swarm("b", 1000)


@pytest.mark.parametrize("held_kinds", [("AMD_GPU",), ("AMD_GPU", "MI210")])
def test_a_gpu_promised_by_one_kind_is_not_given_by_another(whole, held_kinds):
    whole("first", [0, 1], *held_kinds)

    with pytest.raises(GpusRefused) as refusal:
        whole("second", [1, 2], "GPU_COMPUTE")

    assert str(refusal.value) == (
        f"GPU 1 is reserved as {', '.join(held_kinds)} by container first, not free as GPU_COMPUTE"
        " (run 'amd-ctk swarm status' to see which containers use the GPUs)"
    )


def test_a_gpu_whose_memory_is_promised_is_not_given_whole(machine, swarm, whole):
    swarm("first", 1000)

    with pytest.raises(GpusRefused, match="GPU 0 is reserved as VRAM by container first, not free as AMD_GPU"):
        whole("second", [0], "AMD_GPU")
    assert machine.users() == {0: ["first"], 1: [], 2: [], 3: []}


def test_within_one_kind_swarm_itself_keeps_count(whole):
    assert whole("first", [0], "AMD_GPU")
    assert whole("second", [0], "AMD_GPU")


def test_containers_that_swarm_does_not_run_share_gpus_as_ever(machine, swarm):
    swarm("task", 1000)

    machine.create("plain", [0])

    assert machine.users()[0] == ["task", "plain"]
    assert swarm("next", 1000) == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("memory"), st.integers(1, 70000)),
            st.tuples(st.just("whole"), st.integers(0, 3)),
            st.tuples(st.just("end"), st.integers(0, 20)),
        ),
        max_size=25,
    )
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_history_promises_memory_twice(machine, steps):
    machine.boot()
    gpus = find_gpus(machine.host)
    running = {}
    for step, (what, amount) in enumerate(steps):
        if what == "end" and running:
            machine.kill(running.pop(sorted(running)[amount % len(running)]))
            continue
        creator = machine.start_process()
        claim = Claim(
            holder=machine.holder(f"c{step}", creator=creator),
            wanted=[gpus[amount]] if what == "whole" else (),
            ways=("swarm",),
            kinds=("AMD_GPU",) if what == "whole" else ("VRAM",),
            vram_mb=amount if what == "memory" else 0,
        )
        try:
            if what == "memory":
                reserve_chosen(machine.book, claim, MemoryChooser(claim, gpus))
            elif what == "whole":
                reserve(machine.book, claim)
            running[f"c{step}"] = creator
        except GpusRefused:
            machine.kill(creator)

        for gpu in machine.tracker.status().gpus:
            promised = [use.vram_mb for use in gpu.containers]
            assert sum(promised) <= VRAM_MB
            assert not (0 in promised and any(promised))


def test_rootless_containers_cannot_reserve_memory_that_root_would_not_see(machine, tmp_path):
    state = State(machine.host, str(tmp_path / "run-of-a-user"))
    claim = claim_of_memory(machine, "c1", 1000)

    with pytest.raises(GpusRefused) as refusal:
        reserve_chosen(
            Book(state, machine.processes, LibraryLock), claim, MemoryChooser(claim, find_gpus(machine.host))
        )

    assert str(refusal.value) == "DOCKER_RESOURCE_VRAM=1000: only containers of root can reserve memory"
    assert state.lease_paths() == []
