"""People have parts of GPUs, and wait in line for them: nobody overtakes a larger part, and no GPU is given twice."""

from __future__ import annotations

from functools import partial

import pytest

from amd_gpu_sharing.broker.queue import queue
from amd_gpu_sharing.broker.queue.order import HeldUp, Outlook
from amd_gpu_sharing.broker.requests.client import Refused
from amd_gpu_sharing.broker.requests.protocol import PREVIEW, RESERVE, Request
from amd_gpu_sharing.service import Service
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.numbering import locate_gpus
from support.memory_limits import hide_memory, shrink
from support.shared_host import ALICE, BOB, CAROL, make_demand, run, users, wait_until


@pytest.fixture
def broker(broker):
    """Return a broker of a host whose exclusive GPUs are shared by parts; GPU 7 is shared by all."""
    Tracker(broker.host).set_accessibility("7", exclusive=False)
    broker.shares_by_vram = True
    broker.set_terms("fifo", "everyone")
    return broker


TOO_MUCH = "4: 5000 MiB is more than GPU 0 has, which is 4096 MiB"


def part(name, gpus, mib, **more):
    return run(name, gpus, vram_mb=mib, **more)


def parts(host, number):
    """Return who has how much of a GPU."""
    (gpu,) = [each for each in Tracker(host).status().gpus if each.number == number]
    return {use.container_id: use.vram_mb for use in gpu.containers}


@pytest.mark.parametrize("gpu", ["0", "7"])
def test_people_share_a_gpu_and_who_does_not_fit_waits_for_the_first_to_end(host, person, gpu):
    alice = person(ALICE, part("train", gpu, 40000))
    assert alice.line() == f"got ({gpu},)"
    assert person(BOB, part("eval", gpu, 20000)).line() == f"got ({gpu},)"
    carol = person(CAROL, part("late", gpu, 10000))
    assert carol.line() == (
        f"waiting for 1 GPU: 0 free of 1 that fits; GPU {gpu} has 5520 MiB of memory left, not 10000;"
        f" GPU {gpu}: 40001's train since 12:00, GPU {gpu}: 40002's eval since 12:00"
    )

    alice.end()

    assert carol.answer() == f"got ({gpu},)"
    assert parts(host, int(gpu)) == {"40002/eval": 20000, "40003/late": 10000}


def test_a_spare_job_has_whole_gpus_which_others_get_when_it_ends(host, person):
    worker = person(ALICE, part("worker", "0", 1000, spare=True), command=("sleep", "600"))
    assert worker.line() == "got (0,)"
    assert parts(host, 0) == {"40001/worker": 0}

    assert person(BOB, run("train", "0")).answer() == "got (0,)"


def test_a_spare_job_has_a_gpu_with_the_memory_that_limits_it(host, person):
    shrink(host, 0)

    assert person(ALICE, part("worker", "auto:1", 5000, spare=True)).line() == "got (1,)"
    assert person(ALICE, part("late", "0", 5000, spare=True)).line() == (
        f"{TOO_MUCH} (ask for less, or for GPUs that have it, as in auto:1+vram:5000MiB)"
    )


@pytest.mark.parametrize("is_waiting", [False, True])
def test_only_a_job_that_is_no_part_has_a_gpu_whose_memory_is_unknown(host, person, is_waiting):
    hide_memory(host, 0)

    assert person(ALICE, part("train", "0", 5000, wait=is_waiting)).line() == (
        "4: the memory of GPU 0 is not known (leave the amount of memory out)"
    )
    assert person(ALICE, part("worker", "0", 5000, spare=True)).line() == "got (0,)"


def test_a_job_that_a_gpu_of_its_reservation_cannot_hold_is_refused_and_gets_nothing(host, person):
    shrink(host, 0)
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=600)).line()
    inside = part("inside", "", 5000, reservation="debug")

    assert person(ALICE, inside).line() == f"{TOO_MUCH} (ask for less)"
    assert person(ALICE, inside.replace(verb=PREVIEW)).line() == f"{TOO_MUCH} (ask for less)"
    assert parts(host, 0) == {"40001/debug": 0}


def test_a_reservation_has_whole_gpus(person):
    request = Request(verb=RESERVE, name="debug", gpus="0", seconds=600, vram_mb=1000)

    assert person(ALICE, request).line() == "2: a reservation has whole GPUs (leave the amount of memory out)"


def test_a_part_that_fits_nowhere_says_what_is_left(person):
    person(ALICE, part("wide", "0-7", 60000)).line()

    assert person(BOB, part("now", "auto:1", 6000, wait=False)).line() == (
        "1: auto:1: 0 of 8 GPUs have 6000 MiB left (0-7 with 5520 MiB left);"
        " 'amd-ctk run --gpus=auto:1 --vram=6000MiB --wait -- COMMAND' waits for one"
    )
    said = "waiting for 1 GPU: 0 free of 8; it needs 6000 MiB, and GPU 0 has the most left, 5520 MiB"
    assert person(BOB, part("asks", "auto:1", 6000).replace(verb=PREVIEW)).line() == (
        f"{said}; GPUs 0-7: 40001's wide since 12:00"
    )
    assert person(BOB, part("late", "auto:1", 6000)).line() == f"{said}; GPUs 0-7: 40001's wide since 12:00"


def test_a_small_part_does_not_overtake_a_large_one_that_waits(host, person):
    alice = person(ALICE, part("train", "0", 40000))
    alice.line()
    bob = person(BOB, part("large", "0", 60000))
    bob.line()

    assert person(CAROL, part("now", "0", 1000, wait=False)).line() == (
        "1: GPU 0 is in use by job train of user 40001; 1 job waits for GPUs before this one"
        " ('amd-ctk run --wait' waits in line)"
    )
    carol = person(CAROL, part("small", "0", 1000))
    assert carol.line() == (
        "waiting for 1 GPU: 0 free of 1 that fits, 1 job before this one (40002's large: 60000 MiB of 1 GPU);"
        " GPU 0: 40001's train since 12:00"
    )
    alice.end()

    assert [bob.answer(), carol.answer()] == ["got (0,)", "got (0,)"]
    assert parts(host, 0) == {"40002/large": 60000, "40003/small": 1000}


def test_who_wants_the_whole_gpu_waits_for_all_parts_and_is_not_starved(host, person):
    first, second = person(ALICE, part("a", "0", 1000)), person(ALICE, part("b", "0", 1000))
    assert [first.line(), second.line()] == ["got (0,)", "got (0,)"]
    bob = person(BOB, run("whole", "0"))
    bob.line()
    carol = person(CAROL, part("late", "0", 1000))
    carol.line()

    first.end()
    second.end()

    assert bob.answer() == "got (0,)"
    assert users(host) == {0: ["40002/whole"]}
    bob.end()
    assert carol.answer() == "got (0,)"


def test_without_the_setting_an_exclusive_gpu_stays_whole(broker, person):
    broker.shares_by_vram = False
    broker.set_terms("fifo", "everyone")
    person(ALICE, part("train", "0", 1000)).line()

    assert person(BOB, part("eval", "0", 1000)).line() == (
        "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's train since 12:00"
    )
    assert person(BOB, part("other", "auto:1", 1000)).line() == "got (1,)"


def test_a_broker_that_starts_again_keeps_the_parts_and_who_waits(host, broker, person):
    alice = person(ALICE, part("train", "0", 40000))
    alice.line()
    bob = person(BOB, part("large", "0", 60000))
    bob.line()
    broker.kill()
    broker.start()
    assert [(ticket.name, ticket.vram_mb) for ticket in Tracker(host).waiting()] == [("large", 60000)]

    assert person(CAROL, part("also", "0", 40000, wait=False)).line().startswith("1: GPU 0 is in use by job train")
    alice.end()

    assert bob.answer() == "got (0,)"
    assert parts(host, 0) == {"40002/large": 60000}


def test_a_job_in_a_reservation_has_the_whole_gpus_of_it(host, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=600)).line()

    assert person(ALICE, part("inside", "", 1000, reservation="debug")).line() == "got (0,)"
    assert parts(host, 0) == {"40001/debug": 0, "40001/inside": 0}
    assert person(BOB, part("late", "0", 1000, wait=False)).line().startswith("1: GPUs [0] are exclusive")


def test_a_part_for_longer_than_any_gpu_has_is_refused_at_once(person):
    assert person(ALICE, part("huge", "0", 70000)).line() == (
        "4: 70000 MiB is more than GPU 0 has, which is 65520 MiB"
        " (ask for less, or for GPUs that have it, as in auto:1+vram:70000MiB)"
    )


def test_the_container_of_a_job_has_its_part_and_other_jobs_stay(host, person):
    alice = person(ALICE, part("train", "0", 40000), command=("sh", "-c", "echo $AMD_CTK_RESERVATION; exec sleep 600"))
    assert alice.line() == "got (0,)"
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={alice.line()}"]}}
    container = StartingContainer(container_id="c1", spec=spec, bundle="/b")
    gpus = locate_gpus(host)[:1]
    claim = claim_nodes(host, container, granted=gpus, located=locate_gpus(host))

    assert (claim.read_part(), claim.reserve()) == (40000, True)
    assert parts(host, 0) == {"40001/train": 40000, "c1": 40000}
    assert person(BOB, part("eval", "0", 25520)).line() == "got (0,)"


# A container of a rootless engine as the kernel sees it: its first process has a user and a pid namespace.
CONTAINER = "unshare --user --map-root-user --pid --fork"


@pytest.mark.needs("namespaces", "users' processes")
def test_a_job_goes_on_in_its_container_beside_the_parts_of_others(host, broker, person):
    broker.set_terms("fifo", "alice=40001:time=1h", "everyone")
    assert person(BOB, part("eval", "0", 25520)).line() == "got (0,)"
    detached = f"(setsid {CONTAINER} sh -c 'echo begun; sleep 600; :' &) | head -n 1"
    alice = person(ALICE, part("train", "0", 40000), command=("sh", "-c", detached))
    assert [alice.line(), alice.line()] == ["got (0,)", "begun"]
    assert alice.ended_by() == 0

    wait_until(lambda: any(line.startswith("goes on: 40001/train") for line in broker.lines()))

    assert parts(host, 0) == {"40002/eval": 25520, "40001/train": 40000}


def test_nobody_overtakes_a_part_by_its_time():
    # GPU 0 is free at 100; when enough of its memory is, is unknown.
    outlook = Outlook(now=0.0, free=0, ends={0: 100.0})
    held_up = HeldUp()

    held_up.add(make_demand(1, 0b1, vram_mb=1000), outlook)

    assert list(held_up.left_for(make_demand(1, 0b1, seconds=50.0), outlook.replace(free=0b1))) == []
    whole = HeldUp()
    whole.add(make_demand(1, 0b1), outlook)
    assert list(whole.left_for(make_demand(1, 0b1, seconds=50.0), outlook.replace(free=0b1))) == [0b1]


@pytest.fixture
def earlier(broker, monkeypatch):
    """Return a service of an earlier version, which does not know parts."""
    broker.kill()
    with monkeypatch.context() as earlier:
        known = {name: kind for name, kind in Request.fields().items() if name != "vram_mb"}
        earlier.setattr(Request, "_fields", known)
        broker.start()
    return Service(broker.host)


@pytest.mark.parametrize("gpus", ["0", "free:9"])
def test_a_service_of_an_earlier_version_is_named_with_the_command_that_restarts_it(host, earlier, gpus):
    with pytest.raises(Refused) as refused:
        earlier.run(part("train", gpus, 1000), timeout=None, notify=print)

    assert (refused.value.exit_code, str(refused.value)) == (
        2,
        (
            "the service that gives out GPUs is still of an earlier version, which does not know --vram"
            " (the administrator restarts it: stop it, then amd-ctk gpu-tracker serve --listen"
            f" {host.path('/run/amd-container-toolkit/gpus.socket')})"
        ),
    )
    assert users(host) == {}
    assert earlier.preview(run("train", "0")).numbers == (0,)


def test_what_no_version_understands_is_refused_in_the_words_of_the_service(host, broker):
    with pytest.raises(Refused, match=r"^the request cannot be understood$"):
        Service(host).run(part("train", "0," * 600, 1000), timeout=None, notify=print)


@pytest.fixture
def full(broker, person, monkeypatch):
    """Return a service whose queue is full: who wants a part of GPU 7 cannot even wait for it."""
    broker.kill()
    with monkeypatch.context() as patched:
        patched.setattr(queue, "MOST_WAITING", 1)
        broker.start()
    assert person(ALICE, part("train", "7", 65520)).line() == "got (7,)"
    assert person(BOB, part("eval", "7", 1000)).line().startswith("waiting for 1 GPU")
    return Service(broker.host)


@pytest.mark.parametrize("ask", [Service.preview, partial(Service.run, timeout=None, notify=print)])
def test_a_full_queue_is_no_sign_of_an_earlier_version(full, ask):
    with pytest.raises(Refused, match=r"^too many jobs are already waiting \(try again later\)$"):
        ask(full, part("late", "7", 1000))


def test_a_reservation_of_a_part_is_no_sign_of_an_earlier_version(host, broker):
    request = Request(name="debug", gpus="0", seconds=600, vram_mb=1000)

    with pytest.raises(Refused, match=r"^a reservation has whole GPUs \(leave the amount of memory out\)$"):
        Service(host).reserve(request, timeout=None, notify=print)


def test_an_impossible_part_is_no_sign_of_an_earlier_version(host, broker):
    with pytest.raises(Refused, match=r"^the request cannot be understood$"):
        Service(host).preview(part("odd", "0", 1 << 32))


@pytest.mark.parametrize("mib", [-1, 1 << 32])
def test_a_request_for_an_impossible_part_is_not_understood(person, mib):
    assert person(ALICE, part("odd", "0", mib)).line() == "2: the request cannot be understood"
