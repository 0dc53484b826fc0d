"""Jobs with parts of GPUs: placed where they fit, together never more than a GPU has, and never beside a whole one."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.chosen import reserve_chosen
from amd_gpu_tracker.claims.claim import Book, Claim
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.claims.parts import has_room
from amd_gpu_tracker.claims.reservation import reserve
from amd_gpu_tracker.claims.vram import MemoryChooser
from amd_gpu_tracker.errors import ContainerRunning, GpusRefused, StateError
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.numbering import locate_gpus
from support.memory_limits import hide_memory, shrink

# Of each of four MI210.
VRAM_MB = 65520
SHARING = ChoiceRules(groups={}, shares_by_vram=True)


@pytest.fixture
def sharing(machine):
    """Return the tracker of a host whose exclusive GPUs jobs share by parts; GPU 3 stays shared."""
    machine.tracker.set_accessibility("0-2", exclusive=True)
    return Tracker(machine.host, processes=machine.processes, lock_timeout=2, rules=SHARING)


def parts(machine):
    """Return who has how much of which GPU, 0 for the whole."""
    return {
        gpu.number: {use.container_id: use.vram_mb for use in gpu.containers}
        for gpu in machine.tracker.status().gpus
        if gpu.containers
    }


def test_an_exclusive_gpu_with_two_parts_is_exclusive_already(sharing):
    for name in ("a", "b"):
        sharing.reserve("0", name=name, vram_mb=1000)

    change = sharing.set_accessibility("0-2", exclusive=True)

    assert (change.already, change.in_use) == ((0, 1, 2), ())


def test_parts_fill_the_gpu_that_has_least_to_spare(machine):
    sizes = {"a": 40000, "b": 30000, "c": 20000, "d": 30000, "e": 5520}

    numbers = [machine.tracker.reserve("auto:1", name=name, vram_mb=size).numbers for name, size in sizes.items()]

    assert numbers == [(0,), (1,), (0,), (1,), (0,)]
    assert parts(machine) == {0: {"a": 40000, "c": 20000, "e": 5520}, 1: {"b": 30000, "d": 30000}}


def test_a_part_of_several_gpus_is_as_large_on_each(machine):
    machine.tracker.reserve("auto:4", name="wide", vram_mb=60000)

    assert parts(machine) == {number: {"wide": 60000} for number in range(4)}
    with pytest.raises(GpusRefused):
        machine.tracker.reserve("auto:1", name="late", vram_mb=6000)


def test_a_part_of_a_free_gpu_is_one_that_nobody_else_has_now(machine):
    machine.tracker.reserve("0", name="small", vram_mb=1000)

    assert machine.tracker.reserve("free:1", name="alone", vram_mb=1000).numbers == (1,)
    assert machine.tracker.reserve("auto:1", name="beside", vram_mb=1000).numbers == (0,)
    with pytest.raises(GpusRefused) as refusal:
        machine.tracker.reserve("free:3", name="late", vram_mb=1000)
    assert str(refusal.value) == (
        "free:3: 2 of 4 GPUs are free (0 in use by small and beside; 1 in use by alone);"
        " 'amd-ctk run --gpus=free:3 --vram=1000MiB --wait -- COMMAND' waits for one"
    )


def test_a_part_for_which_no_gpu_has_room_is_refused_with_what_each_has(machine):
    machine.tracker.reserve("0", name="large", vram_mb=60000)
    machine.tracker.reserve("1", name="whole")
    machine.tracker.reserve("2-3", name="pair", vram_mb=50000)

    with pytest.raises(GpusRefused) as refusal:
        machine.tracker.reserve("auto:1", name="late", vram_mb=20000)

    assert str(refusal.value) == (
        "auto:1: 0 of 4 GPUs have 20000 MiB left (0 with 5520 MiB left; 1 in use without a limit by whole;"
        " 2, 3 with 15520 MiB left); 'amd-ctk run --gpus=auto:1 --vram=20000MiB --wait -- COMMAND' waits for one"
    )
    assert refusal.value.obstacle == "it needs 20000 MiB, and GPU 2 has the most left, 15520 MiB"
    assert [each.message for each in machine.tracker.refusals()] == [refusal.value.message]


def test_a_part_of_named_gpus_that_one_of_them_lacks_is_refused(machine):
    machine.tracker.reserve("0", name="large", vram_mb=60000)
    machine.tracker.reserve("1", name="whole")

    with pytest.raises(GpusRefused) as refusal:
        machine.tracker.reserve("0-2", name="late", vram_mb=5521)

    assert str(refusal.value) == (
        "GPU 0 has 5520 MiB of memory left, not 5521; GPU 1 has 0 MiB of memory left, not 5521"
    )
    assert machine.tracker.reserve("0,2", name="fits", vram_mb=5520).numbers == (0, 2)


def test_a_preview_has_the_gpu_that_would_be_chosen(machine):
    machine.tracker.reserve("1", name="large", vram_mb=60000)

    gpus, _ = machine.tracker.preview("auto:1", vram_mb=5000)

    assert [gpu.number for gpu in gpus] == [1]
    assert parts(machine) == {1: {"large": 60000}}


@pytest.mark.parametrize(
    ("request_text", "sentence"),
    [
        (
            "0",
            (
                "65521 MiB is more than GPU 0 has, which is 65520 MiB"
                " (ask for less, or for GPUs that have it, as in auto:1+vram:65521MiB)"
            ),
        ),
        ("auto:1", "auto:1: no GPU of this host fits vram:65521MiB ('amd-ctk gpu list' shows them)"),
    ],
)
def test_more_than_a_gpu_has_is_refused_for_ever(machine, request_text, sentence):
    with pytest.raises(RequestError) as refusal:
        machine.tracker.reserve(request_text, name="late", vram_mb=65521)

    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    ("request_text", "instead", "numbers"),
    [
        ("all", "all+vram:5000MiB", (0, 1, 3)),
        ("All", "all+vram:5000MiB", (0, 1, 3)),
        ("all+gfx90a", "all+vram:5000MiB", (0, 1, 3)),
        ("1-2", "auto:2+vram:5000MiB", (0, 1)),
    ],
)
def test_all_and_named_gpus_include_those_that_are_too_small_for_the_part(machine, request_text, instead, numbers):
    shrink(machine.host, 2)

    with pytest.raises(RequestError) as refusal:
        machine.tracker.reserve(request_text, name="late", vram_mb=5000)

    assert str(refusal.value) == (
        f"5000 MiB is more than GPU 2 has, which is 4096 MiB (ask for less, or for GPUs that have it, as in {instead})"
    )
    assert machine.tracker.reserve(instead, name="wide", vram_mb=5000).numbers == numbers


def test_no_part_is_promised_of_a_gpu_whose_memory_is_unknown(machine):
    hide_memory(machine.host, 0)

    with pytest.raises(RequestError) as refusal:
        machine.tracker.reserve("0", name="late", vram_mb=5000)

    assert str(refusal.value) == "the memory of GPU 0 is not known (leave the amount of memory out)"
    assert machine.tracker.reserve("auto:1", name="other", vram_mb=5000).numbers == (1,)


def test_a_released_part_is_free_again(machine):
    machine.tracker.reserve("0", name="large", vram_mb=60000)
    machine.tracker.release("large")

    assert machine.tracker.reserve("0", name="next", vram_mb=VRAM_MB).numbers == (0,)


def test_a_name_has_one_part(machine):
    machine.tracker.reserve("0", name="job", vram_mb=1000)

    with pytest.raises(ContainerRunning):
        machine.tracker.reserve("0", name="job", vram_mb=1000)


def test_who_names_a_shared_gpu_gets_the_whole_even_where_others_have_parts(machine):
    machine.tracker.reserve("0", name="part", vram_mb=1000)

    assert machine.tracker.reserve("0", name="whole").numbers == (0,)
    assert machine.tracker.reserve("auto:1", name="next", vram_mb=1000).numbers == (1,)


def test_swarm_and_jobs_count_each_others_parts(machine):
    machine.tracker.reserve("0", name="job", vram_mb=60000)
    gpus = find_gpus(machine.host)

    def promise(name, mib):
        holder = machine.holder(name, creator=machine.start_process())
        claim = Claim(holder=holder, wanted=(), ways=("swarm",), kinds=("VRAM",), vram_mb=mib)
        return [gpu.number for gpu in reserve_chosen(machine.book, claim, MemoryChooser(claim, gpus))]

    assert [promise("small", 5000), promise("large", 6000)] == [[0], [1]]
    assert machine.tracker.reserve("auto:1", name="next", vram_mb=59520).numbers == (1,)


def carry_token(machine, name, reservation, gpus=(0,)):
    """Make a container that carries the token of a reservation; return the process that makes it."""
    located, creator = locate_gpus(machine.host), machine.start_process()
    token = reservation.environment["AMD_CTK_RESERVATION"]
    claim = Claim(
        holder=machine.holder(name, creator=creator),
        wanted=[located[number] for number in gpus],
        ways=("env",),
        environment=(f"AMD_CTK_RESERVATION={token}",),
    )
    assert reserve(machine.book, claim)
    return creator


def test_a_job_and_its_containers_have_one_part_together(machine):
    job = machine.tracker.reserve("0", name="job", vram_mb=60000)
    carry_token(machine, "first", job)
    carry_token(machine, "second", job)

    assert parts(machine) == {0: {"job": 60000, "first": 60000, "second": 60000}}
    assert machine.tracker.reserve("0", name="next", vram_mb=5520).numbers == (0,)
    machine.tracker.release("job")
    with pytest.raises(GpusRefused, match="GPU 0 has 0 MiB of memory left, not 1"):
        machine.tracker.reserve("0", name="late", vram_mb=1)


def test_a_container_that_has_more_than_the_gpus_of_its_job_has_them_whole(machine):
    job = machine.tracker.reserve("0", name="job", vram_mb=1000)
    carry_token(machine, "wide", job, (0, 1))

    assert parts(machine) == {0: {"job": 1000, "wide": 0}, 1: {"wide": 0}}
    assert machine.tracker.reserve("auto:1", name="next", vram_mb=1000).numbers == (2,)


def test_a_container_that_claims_another_gpu_later_has_both_whole(machine):
    job = machine.tracker.reserve("0", name="job", vram_mb=1000)
    creator = carry_token(machine, "wide", job)

    machine.claim("wide", [1], creator=creator)

    assert parts(machine) == {0: {"job": 1000, "wide": 0}, 1: {"wide": 0}}


def test_a_lease_of_an_earlier_version_has_the_whole_gpu(machine):
    machine.tracker.reserve("0", name="old", vram_mb=1000)
    (path,) = machine.state.lease_paths()
    with open(path, encoding="utf-8") as lease:
        fields = {name: value for name, value in json.load(lease).items() if name != "vram_mb"}
    with open(path, "w", encoding="utf-8") as lease:
        lease.write(json.dumps(fields, separators=(",", ":")) + "\n")

    with pytest.raises(GpusRefused, match="GPU 0 has 0 MiB of memory left, not 1000"):
        machine.tracker.reserve("0", name="new", vram_mb=1000)


@pytest.mark.parametrize("request_text", ["0", "auto:1"])
def test_a_lease_that_cannot_be_read_may_have_any_memory(machine, request_text):
    machine.tracker.reserve("0", name="first", vram_mb=1000)
    with open(machine.state.lease_paths()[0], "w", encoding="utf-8") as lease:
        lease.write("{")

    with pytest.raises(StateError, match="cannot be understood"):
        machine.tracker.reserve(request_text, name="next", vram_mb=1000)


def test_a_drained_gpu_gives_no_part(machine):
    machine.tracker.reserve("0", name="first", vram_mb=1000)
    machine.tracker.drain("0")

    assert machine.tracker.reserve("auto:1", name="next", vram_mb=1000).numbers == (1,)
    with pytest.raises(GpusRefused, match="GPU 0 is drained"):
        machine.tracker.reserve("0", name="late", vram_mb=1000)


def test_an_exclusive_gpu_stays_whole_without_the_setting(machine):
    machine.tracker.set_accessibility("all", exclusive=True)
    machine.tracker.reserve("0-3", name="first", vram_mb=1000)

    for request_text, sentence in (
        ("auto:1", "auto:1: 0 of 4 GPUs have 1000 MiB left (0-3 exclusive and in use);"),
        ("0", "GPUs [0] are exclusive and already in use\nGPU 0 is in use by job first"),
    ):
        with pytest.raises(GpusRefused) as refusal:
            machine.tracker.reserve(request_text, name="second", vram_mb=1000)
        assert str(refusal.value).startswith(sentence)


def test_with_the_setting_jobs_share_an_exclusive_gpu_by_parts(machine, sharing):
    assert sharing.reserve("auto:1+numa:0", name="a", vram_mb=40000).numbers == (0,)
    assert sharing.reserve("0", name="b", vram_mb=20000).numbers == (0,)
    assert sharing.reserve("auto:1", name="c", vram_mb=5520).numbers == (0,)

    assert parts(machine) == {0: {"a": 40000, "b": 20000, "c": 5520}}
    assert sharing.reserve("auto:1", name="d", vram_mb=1).numbers == (1,)


@pytest.mark.parametrize("request_text", ["0", "all", "auto:4"])
def test_nobody_gets_an_exclusive_gpu_whole_while_others_have_parts(machine, sharing, request_text):
    sharing.reserve("0", name="a", vram_mb=1000)
    sharing.reserve("0", name="b", vram_mb=1000)

    with pytest.raises(GpusRefused):
        sharing.reserve(request_text, name="whole")
    with pytest.raises(GpusRefused, match="GPU 0 is in use by job a\nGPU 0 is in use by job b"):
        machine.claim("container", [0], creator=machine.start_process())
    sharing.release("a")
    sharing.release("b")
    assert sharing.reserve(request_text, name="whole").numbers[0] == 0


def test_nobody_gets_a_part_of_an_exclusive_gpu_that_somebody_has_whole(machine, sharing):
    machine.create("container", [0])
    sharing.reserve("1", name="whole")

    assert sharing.reserve("auto:1", name="first", vram_mb=1000).numbers == (2,)
    with pytest.raises(GpusRefused, match="GPU 0 is in use by container container\nGPU 1 is in use by job whole"):
        sharing.reserve("0,1", name="late", vram_mb=1000)


def test_swarm_and_jobs_do_not_share_an_exclusive_gpu(machine, sharing):
    claim = Claim(
        holder=machine.holder("task", creator=machine.start_process()),
        wanted=(),
        ways=("swarm",),
        kinds=("VRAM",),
        vram_mb=1000,
    )
    gpus = find_gpus(machine.host)
    reserve_chosen(machine.book, claim, MemoryChooser(claim, gpus[:1]))

    assert sharing.reserve("auto:1", name="job", vram_mb=1000).numbers == (1,)
    with pytest.raises(GpusRefused, match="GPU 0 is in use by container task"):
        sharing.reserve("0", name="late", vram_mb=1000)


def test_containers_of_jobs_start_where_other_jobs_have_parts(machine, sharing):
    first = sharing.reserve("0", name="first", vram_mb=1000)
    second = sharing.reserve("0", name="second", vram_mb=2000)
    carry_token(machine, "one", first)
    carry_token(machine, "two", second)

    assert parts(machine) == {0: {"first": 1000, "second": 2000, "one": 1000, "two": 2000}}
    with pytest.raises(GpusRefused, match="GPU 0 is in use by"):
        machine.claim("other", [0], creator=machine.start_process())


@pytest.mark.parametrize(("vram_mb", "is_alone"), [(0, True), (1000, False)])
def test_only_the_container_of_a_whole_exclusive_gpu_has_it_alone(machine, sharing, vram_mb, is_alone):
    job = sharing.reserve("0", name="job", vram_mb=vram_mb)
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={job.environment['AMD_CTK_RESERVATION']}"]}}
    container = StartingContainer(container_id="c1", spec=spec, bundle="/b")
    gpus = locate_gpus(machine.host)
    claim = claim_nodes(machine.host, container, granted=gpus[:1], located=gpus)
    claim._book = machine.book

    assert (claim.read_part(), claim.is_alone()) == (vram_mb, is_alone)


@pytest.mark.parametrize(("taken", "is_left"), [(25520, True), (25521, False), (0, False)])
def test_a_part_that_has_ended_goes_on_only_if_others_left_room_for_it(machine, sharing, taken, is_left):
    sharing.reserve("0", name="ended", vram_mb=40000)
    ended = machine.state.read_lease(machine.state.lease_path(("", "ended")))
    sharing.release("ended")
    sharing.reserve("0", name="next", vram_mb=taken)
    others = [machine.state.read_lease(machine.state.lease_path(("", "next")))]

    assert has_room(machine.host, machine.state.read_policy(), ended, others) == is_left


@pytest.fixture
def own(machine, tmp_path):
    """Return the tracker of a user without a permission."""
    tracker = Tracker(machine.host, processes=machine.processes, lock_timeout=2)
    tracker._book = Book(State(machine.host, str(tmp_path / "run-of-a-user")), machine.processes, machine.book.lock)
    return tracker


def test_a_users_own_reservations_promise_no_parts(own):
    own.reserve("0", name="own", vram_mb=1000)

    (path,) = own._book.state.lease_paths()
    assert own._book.state.read_lease(path).vram_mb == 0


def test_a_users_own_reservation_is_of_a_gpu_that_has_the_memory(machine, own):
    shrink(machine.host, 0)

    assert own.reserve("auto:1", name="own", vram_mb=5000).numbers == (1,)
    with pytest.raises(RequestError, match="5000 MiB is more than GPU 0 has, which is 4096 MiB"):
        own.reserve("0", name="late", vram_mb=5000)


def test_a_users_own_reservation_is_of_a_gpu_whose_memory_is_unknown(machine, own):
    hide_memory(machine.host, 0)

    assert own.reserve("0", name="own", vram_mb=5000).numbers == (0,)


STEPS = st.one_of(
    st.tuples(st.just("part"), st.sampled_from(["auto:1", "auto:2", "free:1", "0", "1-2", "3"]), st.integers(1, 65520)),
    st.tuples(st.just("whole"), st.sampled_from(["auto:1", "free:1", "0", "1-2", "3"]), st.just(0)),
    st.tuples(st.just("container"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("end"), st.just(""), st.integers(0, 20)),
    st.tuples(st.just("switch"), st.just(""), st.booleans()),
)


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_history_gives_more_than_a_gpu_has_or_parts_beside_a_whole_exclusive_gpu(machine, sharing, steps):
    machine.boot()
    rules, held, containers = SHARING, {}, {}
    for step, (what, request_text, amount) in enumerate(steps):
        tracker = Tracker(machine.host, processes=machine.processes, lock_timeout=2, rules=rules)
        name = f"j{step}"
        if what == "switch":
            rules = SHARING.replace(shares_by_vram=amount)
        elif what == "end" and held:
            job = sorted(held)[amount % len(held)]
            held.pop(job).release()
            for process in containers.pop(job, ()):
                machine.kill(process)
        elif what == "container" and held:
            job = sorted(held)[amount % len(held)]
            containers.setdefault(job, []).append(carry_token(machine, f"c{step}", held[job], held[job].numbers))
        elif what in ("part", "whole"):
            try:
                held[name] = tracker.reserve(request_text, name=name, vram_mb=int(amount))
            except GpusRefused:
                assert name not in {use.container_id for gpu in tracker.status().gpus for use in gpu.containers}

        for gpu in tracker.status().gpus:
            jobs = [use for use in gpu.containers if use.ways == ("api",)]
            assert sum(use.vram_mb for use in jobs) <= VRAM_MB
            if gpu.accessibility == "exclusive":
                assert len(jobs) <= 1 or all(use.vram_mb for use in jobs)
