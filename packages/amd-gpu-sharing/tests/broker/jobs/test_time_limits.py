"""A job whose time is over is warned and ended with all that it began, and nothing else is."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.protocol import END, KEEP, RELEASE, RESERVE, Request
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.numbering import locate_gpus
from support.shared_host import ALICE, BOB, run, users, wait_until

WARNING = r"amd-ctk: job train reaches its time limit in \d+ (s|min \d+ s); it then gets SIGTERM, then SIGKILL"
OVER = "amd-ctk: job train has reached its time limit"
SLEEP = ("sleep", "600")
SHARE = Path(__file__).parents[5] / "docs/how-to/share.md"
# Prints its id when TERM does nothing to it any more.
STUBBORN = "trap '' TERM; echo $$; while :; do sleep 1; done"


def kill_with_children(broker) -> None:
    """Kill a broker as systemd does: with all that it began."""
    children = [each.pid for each, parent in Processes().parents().items() if parent == broker.pid]
    broker.kill()
    for pid in children:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def give_grace(broker, seconds: float) -> None:
    """Start the broker again, with so many seconds between TERM and KILL."""
    broker.kill()
    broker.grace = seconds
    broker.start()


def is_there(pid: int) -> bool:
    return Processes().find(pid) is not None


@pytest.mark.needs("users' processes")
def test_a_job_is_warned_and_then_ended_by_term(host, broker, person):
    broker.set_terms("fifo", "everyone:time=1h")
    alice = person(ALICE, run("train", "0"), command=SLEEP)

    assert alice.line() == "got (0,)"
    broker.pass_time(3000)
    assert re.fullmatch(WARNING, alice.line())
    broker.pass_time(600)
    assert alice.line() == OVER
    assert alice.ended_by() == signal.SIGTERM
    wait_until(lambda: users(host) == {})


def test_processes_that_ended_a_job_are_collected(host, broker, person):
    broker.set_terms("fifo", "everyone:time=1h")
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    assert alice.line() == "got (0,)"
    broker.pass_time(3600)
    assert alice.ended_by() == signal.SIGTERM
    wait_until(lambda: users(host) == {})

    def has_none() -> bool:
        broker.wake()
        # Those that have ended and are not collected are among them.
        return Path(f"/proc/{broker.pid}/task/{broker.pid}/children").read_text() == ""

    wait_until(has_none)


def line_with(program: str) -> str:
    """Return the script of the guide that sends a message at the end, with programs that are here."""
    line = re.search(r"`amd-ctk run -- sh -c '(.*)'`", SHARE.read_text(encoding="utf-8"))
    assert line is not None
    return line[1].replace("python3 train.py", program).replace("notify", "echo")


def test_the_line_of_the_guide_sends_a_message_with_the_exit_code(broker, person):
    broker.set_terms("fifo", "everyone")
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", line_with("sh -c 'exit 3'")))

    assert [alice.line(), alice.line()] == ["got (0,)", "train ended with 3"]


@pytest.mark.needs("users' processes")
def test_the_line_of_the_guide_sends_a_message_at_the_time_limit_too(host, broker, person):
    broker.set_terms("fifo", "everyone:time=1h")
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", line_with("sh -c 'echo begun; exec sleep 600'")))

    assert [alice.line(), alice.line()] == ["got (0,)", "begun"]
    broker.pass_time(3000)
    assert re.fullmatch(WARNING, alice.line())
    broker.pass_time(600)
    said = [alice.line(), alice.line(), alice.line()]
    assert said[0] == OVER
    assert "train ended with 143" in said
    wait_until(lambda: users(host) == {})


@pytest.mark.needs("users' processes")
def test_the_owner_ends_a_job_that_runs(host, broker, person):
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    assert alice.line() == "got (0,)"

    assert person(ALICE, Request(verb=END, name="train")).line() == "got ()"

    assert alice.line() == "amd-ctk: 'amd-ctk end' ends job train"
    wait_until(lambda: users(host) == {})
    assert "to be ended: 40001/train, as user 40001 requested" in broker.lines()


def test_the_remains_of_an_ending_job_cannot_be_ended(person):
    assert person(ALICE, Request(verb=END, name="train.ending")).line() == (
        "2: names that end in .ending belong to jobs that are ending (choose another)"
    )


def test_a_job_that_is_being_ended_is_ended_once(host, broker, person):
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", STUBBORN))
    alice.line()

    limits = []
    for _ in range(3):
        assert person(ALICE, Request(verb=END, name="train")).line() == "got ()"
        limits.append(State(host).read_lease(State(host).lease_path(("", "40001/train"))).limit)

    # Another limit would be another end, with a process of its own.
    assert len(set(limits)) == 1
    assert alice.ended_by() == signal.SIGKILL


def test_another_user_ends_nothing(host, person):
    person(ALICE, run("train", "0"), command=SLEEP).line()

    assert person(BOB, Request(verb=END, name="train")).line() == (
        "11: you have no reservation or job train (see 'amd-ctk queue')"
    )
    assert person(BOB, Request(verb=END, name="train", owner=ALICE)).line() == (
        "3: only root may name another user (run the command with sudo)"
    )
    assert users(host) == {0: ["40001/train"]}


@pytest.mark.needs("users' processes")
def test_root_ends_a_reservation_with_the_job_in_it(host, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()
    job = person(ALICE, run("train", "", reservation="debug"), command=SLEEP)
    job.line()

    assert person(0, Request(verb=END, name="debug", owner=ALICE)).line() == "got ()"

    assert job.line() == OVER
    wait_until(lambda: users(host) == {})


def test_a_job_that_ignores_term_is_killed(broker, person):
    give_grace(broker, 0.1)
    broker.set_terms("fifo", "everyone:time=1h")
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", STUBBORN))
    assert [alice.line(), int(alice.line())] == ["got (0,)", alice.pid]

    broker.pass_time(3600)

    assert alice.ended_by() == signal.SIGKILL


@pytest.mark.needs("users' processes")
def test_processes_left_by_a_job_are_killed_before_another_has_its_gpu(broker, person):
    give_grace(broker, 0.1)
    broker.set_terms("fifo", "alice=40001:time=60s", "everyone")
    # A daemon: it has a session of its own, and its parent is gone.
    daemon = f'setsid sh -c "{STUBBORN.replace("$", chr(92) + "$")}" & sleep 600'
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", f"(({daemon}) &); exec sleep 600"))
    assert alice.line() == "got (0,)"
    left = int(alice.line())
    bob = person(BOB, run("next", "0"))
    assert re.fullmatch(r"waiting for 1 GPU: 0 free of 1 that fits; at the latest in (1 min )?\d+ s", bob.line())

    broker.pass_time(60)

    assert bob.answer() == "got (0,)"
    assert not is_there(left)


@pytest.mark.needs("users' processes")
def test_a_process_that_ignores_term_is_killed_although_the_service_was_killed_in_between(host, broker, person):
    give_grace(broker, 4.0)
    broker.set_terms("fifo", "alice=40001:time=60s", "everyone")
    daemon = f'setsid sh -c "{STUBBORN.replace("$", chr(92) + "$")}" & sleep 600'
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", f"(({daemon}) &); exec sleep 600"))
    assert alice.line() == "got (0,)"
    left = int(alice.line())
    broker.pass_time(60)
    broker.wait_for_line("ending: 40001/train: TERM to ")

    kill_with_children(broker)

    assert alice.ended_by() == signal.SIGTERM
    assert is_there(left)
    assert users(host) == {0: ["40001/train.ending"]}
    broker.start()
    bob = person(BOB, run("next", "0"))
    assert re.fullmatch(r"waiting for 1 GPU: 0 free of 1 that fits; at the latest in (1 min )?\d+ s", bob.line())
    assert bob.answer() == "got (0,)"
    assert not is_there(left)
    assert os.listdir(f"{State(host).run_directory}/ending") == []


def test_the_gpus_of_a_job_that_is_being_ended_cannot_be_taken(broker, person):
    give_grace(broker, 60.0)
    broker.set_terms("fifo", "alice=40001:time=1h", "everyone")
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", STUBBORN))
    alice.line()
    alice.line()
    broker.pass_time(3600)
    broker.wait_for_line("ending: 40001/train: TERM to ")

    asked = (
        run("again", "", reservation="train.ending"),
        Request(verb=RELEASE, name="train.ending"),
        Request(verb=KEEP, name="train.ending"),
    )
    assert [person(ALICE, each).line() for each in asked] == [
        "11: you have no reservation train.ending (see 'amd-ctk queue')",
        "9: the job train.ending is still running (stop it first)",
        "11: train.ending lasts as long as train (name that: 'amd-ctk keep train')",
    ]


def test_a_job_without_a_limit_is_never_ended(broker, person):
    broker.set_terms("fifo", "alice=40001:time=1s", "everyone")
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    bob = person(BOB, run("train", "1"), command=SLEEP)
    assert bob.line() == "got (1,)"

    assert alice.ended_by() == signal.SIGTERM

    assert is_there(bob.pid)
    assert [line for line in broker.lines() if "40002/train" in line] == []


def test_a_process_that_became_another_users_is_left_alone_and_told(broker, person):
    broker.set_terms("fifo", "alice=40001:time=1h")
    started = "setpriv --reuid=40002 --clear-groups sleep 600 & echo $!; wait"
    sudo = person(0, run("train", "0", behind=ALICE), command=("sh", "-c", started))
    assert sudo.line() == "got (0,)"
    left = int(sudo.line())
    broker.pass_time(3600)
    try:
        assert sudo.ended_by() == signal.SIGTERM
        broker.wait_for_line(f"left alone: process {left} of train, which is of user 40002")
        assert is_there(left)
    finally:
        os.kill(left, signal.SIGKILL)


@pytest.mark.needs("users' processes")
def test_a_job_in_a_reservation_ends_with_it(host, broker, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()
    alice = person(ALICE, run("train", "", reservation="debug"), command=SLEEP)

    assert alice.line() == "got (0,)"
    broker.pass_time(3000)
    assert re.fullmatch(WARNING, alice.line())
    broker.pass_time(600)
    assert alice.ended_by() == signal.SIGTERM
    wait_until(lambda: users(host) == {})


def test_a_limit_that_passes_while_there_is_no_broker_is_kept_by_the_next(broker, person):
    broker.set_terms("fifo", "everyone:time=1h")
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    alice.line()
    broker.kill()
    broker.clock.forward(3600)
    assert is_there(alice.pid)

    broker.start()

    assert alice.ended_by() == signal.SIGTERM


def test_a_container_that_outlives_its_job_has_the_limit_of_the_job(host, broker, person):
    broker.set_terms("fifo", "alice=40001:time=1h")
    started = person(0, run("train", "0", behind=ALICE), command=("sh", "-c", "echo begun; exec sleep 600"))
    assert [started.line(), started.line()] == ["got (0,)", "begun"]
    tokens = []
    # While it becomes another program, a process shows no environment.
    wait_until(lambda: tokens.append(Processes().variable(started.pid, "AMD_CTK_RESERVATION")) or tokens[-1])
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={tokens[-1]}"]}}
    claim = claim_nodes(
        host, StartingContainer(container_id="c1", spec=spec, bundle="/b"), granted=locate_gpus(host)[:1]
    )
    assert claim.reserve()
    state = State(host)
    job, container = (state.read_lease(state.lease_path(("", name))) for name in ("train", "c1"))
    assert container.limit == job.limit
    first = subprocess.Popen(SLEEP)
    started.close()

    state.write_lease(container.replace(init=Processes().find(first.pid)))
    broker.pass_time(3600)

    assert first.wait(90) == -signal.SIGTERM


# A container of a rootless engine as the kernel sees it: its first process has a user and a pid namespace.
CONTAINER = "unshare --user --map-root-user --pid --fork"


@pytest.mark.parametrize("is_killed", [False, True], ids=["", "the broker is killed"])
@pytest.mark.needs("namespaces", "users' processes")
def test_a_container_that_a_job_left_detached_has_the_gpu_until_the_time_of_the_job_is_over(
    host, broker, person, is_killed
):
    give_grace(broker, 0.1)
    broker.set_terms("fifo", "alice=40001:time=60s", "everyone")
    detached = f"(setsid {CONTAINER} sh -c 'echo begun; sleep 600; :' &) | head -n 1"
    until_told = f"until [ -e {host.root}/go ]; do sleep 0.1; done"
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", f"{detached}; {until_told}"))
    assert [alice.line(), alice.line()] == ["got (0,)", "begun"]
    if is_killed:
        broker.kill()
    open(f"{host.root}/go", "w").close()
    assert alice.ended_by() == 0
    if is_killed:
        broker.start()
    first = int(broker.wait_for_line("goes on: 40001/train, in a container, as process ").rpartition(" ")[2])
    assert (users(host), is_there(first)) == ({0: ["40001/train"]}, True)

    bob = person(BOB, run("next", "0"))

    assert re.fullmatch(r"waiting for 1 GPU: 0 free of 1 that fits; at the latest in (1 min )?\d+ s", bob.line())
    broker.pass_time(60)
    assert bob.answer() == "got (0,)"
    assert not is_there(first)


@pytest.mark.needs("namespaces", "users' processes")
def test_a_container_that_was_detached_gets_term_before_it_is_killed(broker, person):
    broker.set_terms("fifo", "alice=40001:time=1h")
    # A shell says that what it waited for was ended, too.
    contained = "exec 2>/dev/null; trap 'echo finished; exit' TERM; echo begun; while :; do sleep 0.1; done"
    job = f'setsid {CONTAINER} sh -c "{contained}" & exec sleep 600'
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", job))

    assert [alice.line(), alice.line()] == ["got (0,)", "begun"]
    broker.pass_time(3600)
    assert alice.line() == OVER
    assert alice.line() == "finished"


@pytest.mark.needs("users' processes")
def test_a_program_that_only_has_the_name_of_an_engines_is_ended_with_the_job(host, broker, person):
    broker.set_terms("fifo", "alice=40001:time=1h")
    shutil.copy("/usr/bin/sleep", f"{host.root}/conmon")
    os.chown(f"{host.root}/conmon", ALICE, ALICE)
    job = f"(setsid {host.root}/conmon 600 & echo $!) ; exec sleep 600"
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", job))
    assert alice.line() == "got (0,)"
    left = int(alice.line())

    broker.pass_time(3600)

    assert alice.ended_by() == signal.SIGTERM
    wait_until(lambda: not is_there(left))


def test_a_reservation_longer_than_allowed_is_refused(broker, person):
    broker.set_terms("fifo", "everyone:time=1h")

    asked = Request(verb=RESERVE, name="debug", gpus="0", seconds=3601)

    assert person(ALICE, asked).line() == "3: you may have GPUs for 1h at most (write --for=1h, or less)"
    assert person(ALICE, asked.replace(seconds=3600)).line() == "got (0,)"


def test_the_end_of_a_job_is_visible_to_all(host, broker, person):
    broker.set_terms("fifo", "alice=40001:time=1h", "everyone")
    before = time.time()
    person(ALICE, run("a", "0")).line()
    person(BOB, run("b", "1")).line()

    limited, free = (gpu.containers[0].until for gpu in Tracker(host).status().gpus[:2])

    assert before + 3590 < limited < time.time() + 3610
    assert free is None
