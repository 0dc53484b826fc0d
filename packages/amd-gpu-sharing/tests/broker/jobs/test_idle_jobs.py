"""What nobody uses is warned, and later given up to somebody who waits, and to nobody else."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from amd_gpu_sharing.broker.queue.order import choose_preempted
from amd_gpu_sharing.broker.requests.protocol import KEEP, RESERVE, Request
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.discover import find_gpus
from support.shared_host import ALICE, BOB, make_demand, run, users, wait_until

SLEEP = ("sleep", "600")
WARNING = (
    r"amd-ctk: the GPUs of train have been idle for 1 min 0 s; after another 1 min 0 s, it ends when "
    r"someone waits for them "
    r"\('amd-ctk keep train' prevents that\)"
)
ENDED = r"amd-ctk: the GPUs of job train were idle for (\d min )?\d+ s, and someone waits for them: it ends"


@pytest.fixture
def idle(broker):
    """Let the broker warn after a minute."""
    broker.set_terms("fifo", "everyone", idle=60)


def use(host, number: int, *, is_used: bool = True) -> None:
    """Let a process have memory of a GPU, or none any more."""
    gpu_id = find_gpus(host)[number].gpu_id
    directory = host.path("/sys/class/kfd/kfd/proc/4000")
    os.makedirs(directory, exist_ok=True)
    with open(f"{directory}/vram_{gpu_id}", "w", encoding="utf-8") as file:
        file.write(f"{4 << 30 if is_used else 0}\n")


def said_of(broker, begin: str) -> list[str]:
    return [line for line in broker.lines() if line.startswith(begin)]


def idle_since(host, number: int = 0) -> float | None:
    return Tracker(host).status().gpus[number].containers[0].idle_since


def pass_a_minute(host, broker, *, idle: int = 0) -> None:
    """Let a minute pass once the broker has seen that a GPU is idle, and once its looks are over."""
    wait_until(lambda: idle_since(host, idle) is not None)
    wait_until(lambda: not broker.children())
    broker.pass_time(60)


@pytest.mark.usefixtures("idle")
@pytest.mark.needs("users' processes")
def test_an_idle_job_is_warned_and_kept_until_somebody_waits(host, broker, person):
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    assert alice.line() == "got (0,)"
    pass_a_minute(host, broker)
    assert re.fullmatch(WARNING, alice.line())
    pass_a_minute(host, broker)
    assert (users(host), said_of(broker, "preempted")) == ({0: ["40001/train"]}, [])

    bob = person(BOB, run("next", "0"))

    assert re.fullmatch(ENDED, alice.line())
    assert alice.ended_by() == signal.SIGTERM
    assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's train since 12:00"
    assert bob.answer() == "got (0,)"
    why = r"its GPUs were idle for (\d min )?\d+ s, and job next of user 40002, process \d+ waits for them"
    assert re.fullmatch(f"preempted: 40001/train: {why}", said_of(broker, "preempted")[0])


@pytest.mark.usefixtures("idle")
@pytest.mark.needs("users' processes")
def test_an_idle_reservation_is_released_with_what_runs_in_it(host, broker, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0-1", seconds=3600)).line()
    alice = person(ALICE, run("train", "", reservation="debug"), command=SLEEP)
    assert alice.line() == "got (0, 1)"
    pass_a_minute(host, broker)
    assert alice.line() == (
        "amd-ctk: the GPUs of debug have been idle for 1 min 0 s; after another 1 min 0 s, it ends when"
        " someone waits for them ('amd-ctk keep debug' prevents that)"
    )
    pass_a_minute(host, broker)

    bob = person(BOB, run("next", "free:8"))

    assert re.fullmatch(ENDED, alice.line())
    assert alice.ended_by() == signal.SIGTERM
    bob.line()
    assert bob.answer() == "got (0, 1, 2, 3, 4, 5, 6, 7)"


@pytest.mark.usefixtures("idle")
@pytest.mark.needs("users' processes")
def test_a_used_gpu_is_never_idle(host, broker, person):
    use(host, 0)
    alice, carol = (person(ALICE, run(name, gpu), command=SLEEP) for name, gpu in (("train", "0"), ("train-2", "1")))
    assert [alice.line(), carol.line()] == ["got (0,)", "got (1,)"]

    pass_a_minute(host, broker, idle=1)
    assert re.fullmatch(WARNING.replace("train", "train-2"), carol.line())
    pass_a_minute(host, broker, idle=1)

    assert idle_since(host) is None
    assert said_of(broker, "warned: 40001/train:") == []


@pytest.mark.usefixtures("idle")
@pytest.mark.needs("users' processes")
def test_an_idle_job_that_uses_its_gpus_again_is_kept_though_somebody_waits(host, broker, person):
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    alice.line()
    pass_a_minute(host, broker)
    assert re.fullmatch(WARNING, alice.line())
    pass_a_minute(host, broker)
    use(host, 0)

    bob = person(BOB, run("next", "0"))

    assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's train since 12:00"
    wait_until(lambda: idle_since(host) is None)
    assert (users(host), said_of(broker, "preempted")) == ({0: ["40001/train"]}, [])


@pytest.mark.usefixtures("idle")
@pytest.mark.needs("users' processes")
def test_a_job_that_answers_its_warning_is_warned_again_before_its_end(host, broker, person):
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    alice.line()
    pass_a_minute(host, broker)
    assert re.fullmatch(WARNING, alice.line())
    pass_a_minute(host, broker)

    assert person(ALICE, Request(verb=KEEP, name="train")).line() == "got ()"
    bob = person(BOB, run("next", "0"))

    assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's train since 12:00"
    pass_a_minute(host, broker)
    assert re.fullmatch(WARNING, alice.line())
    pass_a_minute(host, broker)
    assert re.fullmatch(ENDED, alice.line())
    assert bob.answer() == "got (0,)"


@pytest.mark.usefixtures("idle")
def test_only_what_people_have_is_idle(host, person):
    Tracker(host).reserve("1", name="nightly")
    person(ALICE, run("train", "0"), command=SLEEP).line()

    wait_until(lambda: idle_since(host, 0) is not None)
    assert idle_since(host, 1) is None


def test_nothing_is_idle_where_root_does_not_say_so(host, broker, person):
    person(ALICE, run("train", "0"), command=SLEEP).line()
    broker.set_terms("fifo", "everyone", idle=1)
    bob = person(BOB, run("other", "1"), command=SLEEP)
    bob.line()
    began = time.time()
    wait_until(lambda: idle_since(host) is not None and time.time() > began + 2)

    broker.set_terms("fifo", "everyone")

    wait_until(lambda: idle_since(host) is None)


def test_a_check_that_hangs_delays_no_client_and_makes_no_job_idle(host, broker, person):
    broker.set_terms("fifo", "everyone", idle=1)
    # The driver of GPU 0 does not answer, so each look takes two seconds.
    busy = host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{find_gpus(host)[0].pci_address}/gpu_busy_percent")
    if os.path.exists(busy):
        os.unlink(busy)
    os.mkfifo(busy)
    person(ALICE, run("train", "0"), command=SLEEP).line()
    wait_until(broker.children)
    look = broker.children()[0].pid
    os.kill(look, signal.SIGSTOP)

    assert person(BOB, run("other", "1"), command=SLEEP).line() == "got (1,)"
    assert (idle_since(host, 0), idle_since(host, 1)) == (None, None)
    os.kill(look, signal.SIGCONT)
    wait_until(lambda: idle_since(host, 1) is not None)
    assert idle_since(host, 0) is None


def test_the_idle_time_of_a_job_continues_after_the_broker_was_killed(host, broker, person):
    broker.set_terms("fifo", "everyone", idle=3600)
    person(ALICE, run("train", "0"), command=SLEEP).line()
    wait_until(lambda: idle_since(host) is not None)
    before = idle_since(host)

    broker.kill()
    broker.start()
    # It looks at once, and then every minute.
    assert person(BOB, run("other", "1")).line() == "got (1,)"
    pass_a_minute(host, broker)
    wait_until(lambda: idle_since(host, 1) is not None)

    assert abs(idle_since(host) - before) < 0.1


@pytest.mark.needs("users' processes")
def test_the_remains_of_an_ended_job_are_never_idle(host, broker, person):
    broker.kill()
    broker.grace = 60.0
    broker.start()
    broker.set_terms("fifo", "alice=40001:time=60s", "everyone", idle=60)
    # Its first process ends by TERM, and what it left behind does not.
    stubborn = "trap '' TERM; while :; do sleep 1; done"
    person(ALICE, run("train", "0"), command=("sh", "-c", f"(({stubborn}) &); exec sleep 600")).line()
    person(BOB, run("other", "1"), command=SLEEP).line()
    pass_a_minute(host, broker, idle=1)
    wait_until(lambda: users(host).get(0) == ["40001/train.ending"])

    broker.pass_time(60)
    person(BOB, run("next", "0")).line()

    assert idle_since(host) is None
    assert users(host)[0] == ["40001/train.ending"]


@pytest.mark.parametrize(
    ("waiting", "free", "chosen"),
    [
        # One idle job is enough for one who waits, and the first is taken.
        ([make_demand(1, 0b1111)], 0b0000, {"a": 1}),
        # What is free, or about to be, needs nobody's end.
        ([make_demand(1, 0b1111)], 0b1000, {}),
        # Only what fits.
        ([make_demand(1, 0b0010)], 0b0000, {"b": 1}),
        # Two who wait do not get the same GPU.
        ([make_demand(1, 0b1111), make_demand(1, 0b1111)], 0b0000, {"a": 1, "b": 2}),
        ([make_demand(1, 0b1111), make_demand(1, 0b1111)], 0b1000, {"a": 2}),
        # Nobody ends for one whom it does not serve, nor for those behind.
        ([make_demand(4, 0b1111)], 0b0000, {}),
        ([make_demand(4, 0b1111), make_demand(1, 0b0001)], 0b0000, {}),
        ([make_demand(3, 0b1101), make_demand(1, 0b0010)], 0b0000, {"b": 2}),
        # Who wants a GPU of one who comes first is given another.
        ([make_demand(2, 0b1100), make_demand(1, 0b0111)], 0b0000, {"a": 2}),
        # Who wants more than those that nobody before wants gets none.
        ([make_demand(2, 0b1110), make_demand(2, 0b0011)], 0b0000, {}),
    ],
)
def test_no_more_jobs_end_than_serve_a_waiting_job(waiting, free, chosen):
    assert choose_preempted(dict(enumerate(waiting, 1)), free, {"a": 0b0001, "b": 0b0010}) == chosen
