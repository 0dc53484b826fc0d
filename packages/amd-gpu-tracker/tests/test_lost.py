"""A GPU that the host has lost is a row of its own: the others keep what they have, and no number means another GPU."""

from __future__ import annotations

import shutil
from itertools import combinations
from pathlib import Path

import pytest

from amd_gpu_tracker import find_states
from amd_gpu_tracker.claims.chosen import reserve_chosen
from amd_gpu_tracker.claims.claim import Claim
from amd_gpu_tracker.claims.vram import MemoryChooser
from amd_gpu_tracker.errors import GpusChanged, GpusRefused, NotDone, NumbersChanged
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus

GPUS = range(8)
IDS = [
    *("0x93bb3629c01aea1c", "0x4344e78b718814cd", "0x51276ac12ce05db3", "0x1901ead3a2ecd4a6"),
    *("0xf83f06efb714e6cf", "0xc34ec50444dd0a6d", "0xa3781b5a10fcf54a", "0xaea834aa2723eb57"),
]
ADDRESSES = [f"0000:{bus}:00.0" for bus in ("03", "26", "43", "63", "83", "a3", "c3", "e3")]


@pytest.fixture
def eight(machine_of):
    """Return eight MI210 with the tracker enabled, of which the odd ones are exclusive."""
    machine = machine_of("mi210-8")
    machine.tracker.enable()
    machine.tracker.set_accessibility("1,3,5,7", exclusive=True)
    return machine


def take_as_container(machine, number):
    machine.create(f"by-container-{number}", [number])


def take_by_cdi(machine, number):
    creator = machine.start_process()
    assert machine.claim(f"by-cdi-{number}", [number], creator=creator, ways=("cdi",))


def take_as_job(machine, number):
    machine.tracker.reserve(str(number), name=f"by-job-{number}", pid=machine.start_process())


def take_rootless(machine, number):
    machine.as_rootless_user().create(f"by-rootless-{number}", [number])


def take_memory(machine, number):
    creator = machine.start_process()
    claim = Claim(
        holder=machine.holder(f"by-memory-{number}", creator=creator),
        wanted=(),
        ways=("swarm",),
        kinds=("VRAM",),
        vram_mb=1000,
    )
    gpus = [gpu for gpu in find_gpus(machine.host) if gpu.number == number]
    assert reserve_chosen(machine.book, claim, MemoryChooser(claim, gpus))


KINDS = [take_as_container, take_by_cdi, take_as_job, take_rootless, take_memory]


def seen(machine):
    """Return accessibility and containers of each GPU by its PCI address."""
    status = machine.tracker.status()
    return {
        gpu.pci_address: (gpu.accessibility, [use.container_id for use in gpu.containers]) for gpu in status.tracked
    }


def numbers_that_are_given(machine):
    """Return the PCI address of what each number gives, "" where it is refused."""
    given = {}
    for number in GPUS:
        name = f"try-{number}"
        try:
            machine.tracker.reserve(str(number), name=name, pid=machine.start_process())
        except (NumbersChanged, GpusRefused):
            given[number] = ""
            continue
        status = machine.tracker.status()
        given[number] = next(
            gpu.pci_address for gpu in status.gpus if name in [use.container_id for use in gpu.containers]
        )
        machine.state.remove_lease(machine.state.lease_path(("", name)))
    return given


@pytest.mark.parametrize("take", KINDS)
def test_each_gpu_and_each_pair_can_be_lost_whoever_has_it(eight, take):
    for number in GPUS:
        if number % 2 == 0 or take is not take_rootless:
            take(eight, number)
    before = seen(eight)

    for lost in [*([number] for number in GPUS), *map(list, combinations(GPUS, 2))]:
        eight.lose(*lost)
        assert seen(eight) == before
        assert [gpu.number for gpu in eight.tracker.status().lost] == lost
        eight.bring_back()

    assert seen(eight) == before
    assert eight.tracker.status().lost == ()


def test_no_number_means_another_gpu_than_before(eight):
    for lost in [*([number] for number in GPUS), *map(list, combinations(GPUS, 2))]:
        eight.lose(*lost)
        assert numbers_that_are_given(eight) == {
            number: ADDRESSES[number] if number < lost[0] else "" for number in GPUS
        }
        eight.bring_back()

    assert numbers_that_are_given(eight) == dict(enumerate(ADDRESSES))


def test_a_request_by_number_is_told_the_old_and_the_new_ones(eight):
    eight.lose(3, 5)
    hint = (
        "name GPUs by UUID as 'amd-ctk gpu list' shows them, or accept the new numbers with"
        " 'sudo amd-ctk gpu-tracker forget 3,5'"
    )

    def answer(request):
        with pytest.raises(NumbersChanged) as refused:
            eight.tracker.reserve(request, name="a")
        assert refused.value.hint == hint
        return refused.value.message

    assert answer("3") == "GPU 3 is lost"
    assert answer("2-4") == "GPU 3 is lost, GPU 4 now has number 3"
    assert answer("5-7") == "GPU 5 is lost, GPU 6 now has number 4, GPU 7 now has number 5"
    assert answer("7") == "GPU 7 now has number 5"
    assert answer(f"0,{IDS[1]},6") == "GPU 6 now has number 4"


def test_requests_by_other_names_than_numbers_go_on(eight):
    eight.lose(3)

    assert eight.tracker.reserve("0-2", name="low").numbers == (0, 1, 2)
    assert eight.tracker.reserve(IDS[4], name="by-id").numbers == (3,)
    assert eight.tracker.reserve(ADDRESSES[5], name="by-address").numbers == (4,)
    assert len(eight.tracker.reserve("free:1", name="free").numbers) == 1
    for name in ("low", "by-id", "by-address", "free"):
        eight.tracker.release(name)
    assert eight.tracker.reserve("all", name="all").numbers == (0, 1, 2, 3, 4, 5, 6)
    with pytest.raises(GpusRefused):
        eight.tracker.reserve(IDS[7], name="once-more")


def test_a_lost_gpu_has_a_row_with_since_when_and_who_has_it(eight):
    eight.create("c3", [3])
    eight.create("c5", [5])
    eight.lose(3)
    eight.create("c0", [0])

    lost = eight.tracker.status().lost[0]
    states = find_states(eight.host, processes=eight.processes)

    assert (lost.number, lost.pci_address, lost.accessibility) == (3, ADDRESSES[3], "exclusive")
    assert lost.uuid == "0x1901EAD3A2ECD4A6"
    assert lost.reason == "PCI 0000:63:00.0 left the bus"
    assert lost.since == eight.state.read_policy().gpus[3].lost_since > 0
    assert [(each.number, each.tracked_number, each.state) for each in states] == [
        (0, 0, "reserved"),
        (1, 1, "free"),
        (2, 2, "free"),
        (3, 3, "lost"),
        (3, 4, "free"),
        (4, 5, "reserved"),
        (5, 6, "free"),
        (6, 7, "free"),
    ]
    assert (states[3].what, states[3].accessibility, states[3].since) == ("c3", "exclusive", lost.since)


def test_policy_commands_go_on_and_count_for_the_gpus_that_are_meant(eight):
    eight.lose(3)

    assert eight.tracker.set_accessibility("0", exclusive=True).changed == (0,)
    assert eight.tracker.set_accessibility(IDS[4], exclusive=True).changed == (3,)
    with pytest.raises(NumbersChanged, match="GPU 4 now has number 3"):
        eight.tracker.set_accessibility("4", exclusive=True)
    with pytest.raises(NumbersChanged, match="GPU 5 now has number 4"):
        eight.tracker.drain("5")
    eight.bring_back()

    status = eight.tracker.status()
    assert [gpu.number for gpu in status.gpus if gpu.accessibility == "exclusive"] == [0, 1, 3, 4, 5, 7]


def test_containers_start_and_end_and_nothing_is_given_twice(eight):
    init = eight.create("c5", [5])
    eight.lose(3)

    with pytest.raises(GpusRefused):
        eight.create("again", [4])
    eight.kill(init)
    eight.create("again", [4])

    assert seen(eight)[ADDRESSES[5]] == ("exclusive", ["again"])


def test_a_job_that_was_told_a_number_hands_it_on(eight):
    eight.lose(3)
    reservation = eight.tracker.reserve(IDS[4], name="job", pid=eight.start_process())
    environment = [f"{name}={value}" for name, value in reservation.environment.items()]
    creator = eight.start_process()

    gpus = locate_gpus(eight.host, board_ids=False)
    claim = Claim(
        holder=eight.holder("inside", creator=creator),
        wanted=[gpus[3]],
        ways=("env",),
        requests=(reservation.environment["AMD_VISIBLE_DEVICES"],),
        environment=environment,
    )

    from amd_gpu_tracker.claims.reservation import reserve

    assert reservation.environment["AMD_VISIBLE_DEVICES"] == "3"
    assert reserve(eight.book, claim)
    with pytest.raises(NumbersChanged):
        reserve(eight.book, claim.replace(environment=()))


def test_a_lost_gpu_that_is_back_is_as_it_was(eight):
    eight.lose(3)
    eight.create("c0", [0])
    eight.bring_back()
    eight.create("c2", [2])

    assert eight.state.read_policy().gpus[3].lost_since == 0
    assert eight.tracker.reserve("3", name="a").numbers == (3,)


def test_nothing_is_read_again_while_the_same_gpu_stays_lost(eight):
    eight.lose(3)
    eight.create("first", [0])
    eight.create("second", [0])
    file = f"/sys/module/amdgpu/drivers/pci:amdgpu/{ADDRESSES[0]}/unique_id"
    Path(eight.host.path(file)).write_text("0123456789abcdef\n")

    eight.create("third", [0])
    eight.create("behind", [4])

    with pytest.raises(GpusChanged):
        eight.tracker.status()


def test_a_gpu_that_is_new_is_shared(eight):
    eight.lose(7)
    eight.tracker.reset()
    eight.bring_back()
    eight.create("c7", [7])

    assert seen(eight)[ADDRESSES[7]] == ("shared", ["c7"])
    assert [gpu.key for gpu in eight.state.read_policy().gpus][7] == f"{ADDRESSES[7]}/0"


def test_a_gpu_that_is_new_between_others_changes_no_number_silently(eight):
    eight.lose(3)
    eight.tracker.reset()
    eight.bring_back()

    with pytest.raises(NumbersChanged) as refused:
        eight.tracker.reserve("3", name="a")

    assert str(refused.value) == (
        "GPU 3 now has number 4 (name GPUs by UUID as 'amd-ctk gpu list' shows them, or accept the new numbers with"
        " 'sudo amd-ctk gpu-tracker reset')"
    )


def test_forgetting_ends_it_and_the_new_numbers_count(eight):
    eight.create("c3", [3])
    eight.tracker.drain("3", reason="fan swap")
    eight.lose(3)

    forgotten = eight.tracker.gpus.forget("3")

    assert forgotten.gpus == ((3, ADDRESSES[3]),)
    assert forgotten.said == ("container c3 had it, and still runs",)
    assert forgotten.numbers == {3: 4, 4: 5, 5: 6, 6: 7}
    assert eight.tracker.reserve("3", name="a").numbers == (3,)
    assert seen(eight)[ADDRESSES[4]] == ("shared", ["a"])
    assert seen(eight)[ADDRESSES[7]] == ("exclusive", [])
    eight.bring_back()
    eight.create("c0", [0])
    assert seen(eight)[ADDRESSES[3]] == ("shared", [])


def test_a_job_with_other_gpus_beside_a_lost_one_keeps_those(eight):
    eight.tracker.reserve("2-4", name="wide", pid=eight.start_process())
    eight.lose(3)

    assert eight.tracker.gpus.forget("all").said == ("job wide had it, and still runs: it keeps its other GPUs",)
    assert {address for address, (_, users) in seen(eight).items() if users} == {ADDRESSES[2], ADDRESSES[4]}


def test_of_several_lost_gpus_one_can_be_forgotten(eight):
    eight.lose(2, 5)

    assert eight.tracker.gpus.forget("5").numbers == {}
    assert [(gpu.number, gpu.pci_address) for gpu in eight.tracker.status().lost] == [(2, ADDRESSES[2])]
    with pytest.raises(NumbersChanged, match="GPU 3 now has number 2"):
        eight.tracker.reserve("3", name="a")
    assert eight.tracker.gpus.forget("2").numbers == {2: 3, 3: 4, 4: 5, 5: 6}


@pytest.mark.parametrize("request_", ["0", "2-3", "0-99999999999999999999", "3,4"])
def test_a_gpu_that_is_not_lost_is_not_forgotten(eight, request_):
    eight.lose(3)

    with pytest.raises(NotDone, match="not all of these GPUs are lost"):
        eight.tracker.gpus.forget(request_)

    assert [gpu.number for gpu in eight.tracker.status().lost] == [3]


def test_a_word_that_is_no_number_is_not_forgotten(eight):
    with pytest.raises(NotDone, match="no GPU is lost"):
        eight.tracker.gpus.forget("all")
    with pytest.raises(RequestError, match="'fan' is not a GPU number"):
        eight.tracker.gpus.forget("fan")


@pytest.mark.needs("root")
def test_a_board_that_has_another_address_keeps_its_policy_and_drain(eight):
    eight.tracker.drain("7", reason="fan swap")
    policy = eight.state.read_policy()
    moved = policy.gpus[7].replace(key="0000:f3:00.0/0")
    eight.state.write_policy(policy.replace(gpus=(*policy.gpus[:7], moved)))
    drains = Path(eight.host.path("/var/lib/amd-container-toolkit/gpu-tracker-drains.json"))
    drains.write_text(drains.read_text().replace(ADDRESSES[7], "0000:f3:00.0"))

    eight.create("c0", [0])

    assert seen(eight)[ADDRESSES[7]] == ("exclusive", [])
    assert eight.tracker.status().lost == ()
    with pytest.raises(GpusRefused, match="GPU 7 is drained: fan swap"):
        eight.tracker.reserve("7", name="a")


def test_all_gpus_can_be_lost_at_once(eight):
    eight.lose(*GPUS)

    assert [gpu.number for gpu in eight.tracker.status().lost] == [*GPUS]
    with pytest.raises((RequestError, NumbersChanged)):
        eight.tracker.reserve("0", name="a")


def test_an_error_about_another_partitioning_names_the_jobs_of_that_board(machine_of, tmp_path):
    machine = machine_of("mi300x-8", tmp_path / "before")
    machine.tracker.enable()
    machine.create("c0", [0])
    machine.tracker.reserve("2", name="job", pid=machine.start_process())
    address = str(locate_gpus(machine.host)[2].pci_address)
    path = f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/current_memory_partition"
    Path(machine.host.path(path)).write_text("NPS4\n")

    with pytest.raises(GpusChanged) as changed:
        machine.tracker.status()

    assert str(changed.value) == "GPUs info is invalid. Please reset GPU Tracker."
    assert changed.value.living == (f"job job still has {address}/0, which is missing or has changed",)


def test_a_policy_of_another_host_is_invalid_as_before(machine_of, tmp_path):
    machine = machine_of("mi210-4", tmp_path / "before")
    machine.tracker.enable()
    other = machine_of("mi300x-8", tmp_path / "after")
    shutil.copytree(machine.host.path("/var/lib"), other.host.path("/var/lib"), dirs_exist_ok=True)

    with pytest.raises(GpusChanged):
        other.tracker.status()
    with pytest.raises(GpusChanged):
        other.create("c1", [0])
