"""Who is still there keeps GPUs for longer: the own ones, and never for longer than allowed."""

from __future__ import annotations

import re
import signal
import time

import pytest

from amd_gpu_sharing.broker.requests.protocol import END, KEEP, RESERVE, Request
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.numbering import locate_gpus
from support.shared_host import ALICE, BOB, CAROL, run, users

WARNING = r"amd-ctk: job train reaches its time limit in \d+ (s|min \d+ s); it then gets SIGTERM, then SIGKILL"
SLEEP = ("sleep", "600")


def keep(name: str, seconds: int, **more) -> Request:
    return Request(verb=KEEP, name=name, seconds=seconds, **more)


def reserve(name: str, seconds: int) -> Request:
    return Request(verb=RESERVE, name=name, gpus="0", seconds=seconds)


def seconds_left(host, number: int = 0) -> list[int | None]:
    """Return in how many hours the uses of a GPU end."""
    uses = Tracker(host).status().gpus[number].containers
    return [None if use.until is None else round((use.until - time.time()) / 3600) for use in uses]


def test_a_reservation_lasts_longer_and_is_not_taken_at_its_former_end(host, broker, person):
    person(ALICE, reserve("debug", 60)).line()

    assert person(ALICE, keep("debug", 7200)).line() == "got ()"

    broker.pass_time(61)
    # Asking makes the broker look.
    assert person(BOB, run("next", "0", wait=False)).line() == ("1: GPUs [0] are exclusive and already in use")
    assert (users(host), seconds_left(host)) == ({0: ["40001/debug"]}, [2])
    assert any(re.fullmatch(r"kept: 40001/debug by user 40001: ends in 2 h 0 min", line) for line in broker.lines())


def test_a_job_in_a_reservation_lasts_as_long_as_it(host, person):
    person(ALICE, reserve("debug", 3600)).line()
    person(ALICE, run("train", "", reservation="debug"), command=SLEEP).line()

    assert person(ALICE, keep("train", 7200)).line() == (
        "11: train lasts as long as debug (name that: 'amd-ctk keep debug')"
    )
    person(ALICE, keep("debug", 3 * 3600)).line()

    assert seconds_left(host) == [3, 3]


def test_only_its_owner_keeps_and_ends_a_container_whose_job_has_ended(host, broker, person):
    broker.set_terms("fifo", "everyone:time=4h")
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", "echo $AMD_CTK_RESERVATION; exec sleep 600"))
    alice.line()
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={alice.line()}"]}}
    container = StartingContainer(container_id="c1", spec=spec, bundle="/b")
    assert claim_nodes(host, container, granted=locate_gpus(host)[:1]).reserve()
    alice.kill()
    alice.ended_by()

    nothing = "11: you have no reservation or job train (see 'amd-ctk queue')"
    assert person(BOB, keep("train", 3600)).line() == nothing
    assert person(BOB, Request(verb=END, name="train")).line() == nothing
    assert person(ALICE, keep("c1", 3600)).line() == "11: you have no reservation or job c1 (see 'amd-ctk queue')"
    assert person(ALICE, keep("train", 9 * 3600)).line().startswith("3: your limit is 4 h 0 min; train has used ")
    assert person(ALICE, keep("train", 3600)).line() == "got ()"
    assert users(host) == {0: ["c1"]}


def test_the_time_that_a_container_adds_counts_from_the_beginning_of_its_job(host, broker, person):
    broker.set_terms("fifo", "everyone:time=4h")
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", "echo $AMD_CTK_RESERVATION; exec sleep 600"))
    alice.line()
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={alice.line()}"]}}
    container = StartingContainer(container_id="c1", spec=spec, bundle="/b")
    assert claim_nodes(host, container, granted=locate_gpus(host)[:1]).reserve()
    broker.pass_time(3 * 3600)
    alice.kill()
    alice.ended_by()

    assert re.fullmatch(
        r"3: your limit is 4 h 0 min; train has used 3 h 0 min \(write 'amd-ctk keep train \d+m', or less\)",
        person(ALICE, keep("train", 5 * 3600)).line(),
    )
    # The name is its own as long as it lives.
    again = person(ALICE, run("train", "1")).line()
    assert again == "9: train already has GPUs (give each reservation its own name)"


@pytest.mark.needs("users' processes")
def test_a_job_that_root_keeps_is_warned_again_and_ended_later(broker, person):
    broker.set_terms("fifo", "everyone:time=1h")
    alice = person(ALICE, run("train", "0"), command=SLEEP)
    assert alice.line() == "got (0,)"
    broker.pass_time(3000)
    assert re.fullmatch(WARNING, alice.line())

    assert person(0, keep("train", 7200, owner=ALICE)).line() == "got ()"

    broker.pass_time(6600)
    assert re.fullmatch(WARNING, alice.line())
    broker.pass_time(600)
    assert alice.line() == "amd-ctk: job train has reached its time limit"
    assert alice.ended_by() == signal.SIGTERM
    assert len([line for line in broker.lines() if line.startswith("warned: 40001/train: ")]) == 2


def test_nothing_is_made_shorter_and_what_has_no_end_gets_none(host, person):
    person(ALICE, reserve("debug", 7200)).line()
    person(ALICE, run("train", "1"), command=SLEEP).line()

    assert person(ALICE, keep("debug", 60)).line() == "got ()"
    assert person(ALICE, keep("train", 60)).line() == "got ()"

    assert (seconds_left(host), seconds_left(host, 1)) == ([2], [None])


def test_the_time_that_somebody_may_have_gpus_counts_from_the_first_moment(host, broker, person):
    person(ALICE, reserve("debug", 3600)).line()
    broker.set_terms("fifo", "everyone:time=2h")

    # The first second is over when she asks.
    assert re.fullmatch(
        r"3: your limit is 2 h 0 min; debug has used \d+ s "
        r"\(write 'amd-ctk keep debug 119m', or less\)",
        person(ALICE, keep("debug", 7200)).line(),
    )
    assert seconds_left(host) == [1]
    assert person(ALICE, keep("debug", 7140)).line() == "got ()"
    assert person(0, keep("debug", 86400, owner=ALICE)).line() == "got ()"
    assert seconds_left(host) == [24]


@pytest.mark.parametrize(
    ("uid", "asked", "said"),
    [
        (BOB, keep("debug", 60), "11: you have no reservation or job debug (see 'amd-ctk queue')"),
        (BOB, keep("debug", 60, owner=ALICE), "3: only root may name another user (run the command with sudo)"),
        (0, keep("debug", 60), "11: 2 users have a reservation or job debug (name the owner with --user)"),
        (0, keep("other", 60), "11: there is no reservation or job other (see 'amd-ctk queue')"),
        (0, keep("debug", 60, owner=ALICE), "got ()"),
    ],
)
def test_users_keep_their_own_reservations_and_root_the_one_it_names(person, uid, asked, said):
    person(ALICE, reserve("debug", 3600)).line()
    person(CAROL, reserve("debug", 3600).replace(gpus="1")).line()

    assert person(uid, asked).line() == said


def test_a_user_who_may_no_longer_reserve_keeps_nothing(broker, person):
    person(ALICE, reserve("debug", 3600)).line()
    broker.set_terms("fifo", "bob=40002")

    assert person(ALICE, keep("debug", 60)).line() == (
        "3: you may not reserve GPUs on this host (ask the administrator for 'sudo amd-ctk users allow 40001')"
    )


def test_a_job_that_was_begun_with_sudo_is_kept_by_its_person(host, person):
    person(0, run("train", "0", behind=ALICE), command=SLEEP).line()

    another = "11: you have no reservation or job train (see 'amd-ctk queue')"
    assert person(BOB, keep("train", 60)).line() == another
    assert person(ALICE, keep("train", 60)).line() == "got ()"


def test_a_job_whose_time_is_over_is_not_kept(broker, person):
    broker.set_terms("fifo", "everyone:time=1h")
    broker.grace = 60.0
    broker.kill()
    broker.start()
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", "trap '' TERM; while :; do sleep 1; done"))
    alice.line()
    broker.pass_time(3600)
    broker.wait_for_line("ending: 40001/train")

    assert person(0, keep("train", 60)).line() == "11: train is already ending (reserve GPUs again)"
