"""People without root have GPUs by rules, and wait for them in line."""

from __future__ import annotations

import os
import signal

import pytest

from amd_gpu_sharing.broker.requests.client import send_request
from amd_gpu_sharing.broker.requests.protocol import PREVIEW
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.watch.show.table import format_status
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator.runs.breaking import break_gpu
from support.other_user import become
from support.shared_host import ALICE, BOB, CAROL, run, users, wait_until

NO_GPUS = "3: you may not reserve GPUs on this host (ask the administrator for 'sudo amd-ctk users allow 40002')"

ONE_AT_ONCE = "3: you may have 1 GPU at once, but this requests 2 (request fewer)"


def test_a_user_has_exclusive_gpus_and_the_next_waits_for_them(host, person):
    alice = person(ALICE, run("train", "free:8"))
    assert alice.line() == "got (0, 1, 2, 3, 4, 5, 6, 7)"
    bob = person(BOB, run("train", "free:2"))
    assert bob.line() == "waiting for 2 GPUs: 0 free of 8; GPUs 0-7: 40001's train since 12:00"
    assert users(host) == {number: ["40001/train"] for number in range(8)}

    alice.end()

    assert bob.answer() == "got (0, 1)"
    assert users(host) == {0: ["40002/train"], 1: ["40002/train"]}


def test_a_job_that_a_drain_keeps_waiting_holds_up_nobody(host, person):
    Tracker(host).drain("5", reason="fan swap")
    alice = person(ALICE, run("wide", "free:8"))
    assert alice.line() == "waiting for 8 GPUs: 7 free of 8, GPU 5 drained"

    # At once, and in line.
    assert person(BOB, run("now", "free:1", wait=False)).line() == "got (0,)"
    assert person(CAROL, run("next", "free:6")).line() == "got (1, 2, 3, 4, 6, 7)"


def test_a_job_has_its_gpus_once_the_drain_is_over(host, person):
    Tracker(host).drain("5", reason="fan swap")
    alice = person(ALICE, run("wide", "free:8"))
    alice.line()

    Tracker(host).undrain("5")

    assert alice.answer() == "got (0, 1, 2, 3, 4, 5, 6, 7)"


def test_drained_gpus_are_named_and_not_counted_as_free(host, person):
    Tracker(host).drain("5,6", reason="fan swap")
    person(ALICE, run("a", "free:6")).line()

    assert person(BOB, run("b", "free:1")).line() == (
        "waiting for 1 GPU: 0 free of 8, GPUs 5 6 drained; GPUs 0-4 7: 40001's a since 12:00"
    )


@pytest.mark.parametrize("gpus", ["free:8", "auto:8"])
def test_suspect_gpus_are_named_and_not_counted_as_free(host, person, gpus):
    break_gpu(host, 5, "ras")
    asked = run("wide", gpus)

    assert person(ALICE, asked.replace(verb=PREVIEW)).line() == "waiting for 8 GPUs: 7 free of 8, GPU 5 suspect"
    assert person(ALICE, asked).line() == "waiting for 8 GPUs: 7 free of 8, GPU 5 suspect"


def test_a_waiter_reads_whose_jobs_are_before_it(person):
    alice = person(ALICE, run("eval", "free:8"))
    alice.line()
    person(BOB, run("sweep-3", "free:8")).line()

    carol = person(CAROL, run("mine", "free:1"))

    assert carol.line() == (
        "waiting for 1 GPU: 0 free of 8, 1 job before this one (40002's sweep-3: 8 GPUs);"
        " GPUs 0-7: 40001's eval since 12:00"
    )


def test_a_request_for_a_gpu_for_which_others_wait_names_its_holder(person):
    person(ALICE, run("train", "3")).line()
    person(BOB, run("next", "3")).line()

    assert person(CAROL, run("mine", "3", wait=False)).line() == (
        "1: GPU 3 is in use by job train of user 40001; 1 job waits for GPUs before this one"
        " ('amd-ctk run --wait' waits in line)"
    )


def test_a_waiter_for_one_hive_reads_that_the_free_gpus_are_apart(host, person):
    person(ALICE, run("train", "0-1,4-5")).line()

    waiting = person(BOB, run("wide", "auto:3+xgmi"))

    assert waiting.line() == "waiting for 3 GPUs: 4 free of 8; 2 of them in one XGMI hive"


def test_a_waiter_reads_its_place_once_however_often_the_service_restarts(broker, person):
    person(ALICE, run("train", "free:8")).line()
    bob = person(BOB, run("next", "free:1"))
    assert bob.line() == "waiting for 1 GPU: 0 free of 8; GPUs 0-7: 40001's train since 12:00"

    broker.kill()
    broker.start()
    # Who comes after it is told after it.
    person(CAROL, run("last", "free:1")).line()

    assert bob.is_silent()


def test_a_user_limited_to_groups_of_gpus_reads_so(broker, person):
    broker.set_terms("fifo", "everyone:groups=notebooks")

    assert person(ALICE, run("train", "5")).line() == (
        "4: GPU 5 is not among the GPUs this process may use (0, 1) (you may reserve only GPUs of notebooks)"
    )


def test_a_user_sees_the_refusals_of_root_s_containers(host, person):
    person(ALICE, run("train", "0")).line()
    with pytest.raises(GpusRefused):
        Tracker(host).reserve("0", name="program")

    shown = os.pipe()
    if not (pid := os.fork()):
        become(BOB)
        os.write(shown[1], "\n".join(each.message for each in Tracker(host).refusals()).encode())
        os._exit(0)
    os.waitpid(pid, 0)

    assert os.read(shown[0], 1000) == (
        b"GPUs [0] are exclusive and already in use\nGPU 0 is in use by job train of user 40001"
    )


def test_without_permission_nobody_has_gpus(broker, person):
    broker.set_terms("fifo", "alice=40001")

    assert person(ALICE, run("a", "free:1")).line() == "got (0,)"
    assert person(BOB, run("b", "free:1")).line() == NO_GPUS


def test_one_user_is_excluded_while_everyone_is_allowed(broker, person):
    broker.set_terms("fifo", "everyone:gpus=2", "bob=40002:gpus=0")

    assert person(ALICE, run("a", "free:1")).line() == "got (0,)"
    assert person(BOB, run("b", "free:1")).line() == NO_GPUS


def test_an_excluded_user_leaves_the_line(broker, person):
    person(ALICE, run("a", "free:8")).line()
    bob = person(BOB, run("b", "free:1"))
    bob.line()

    broker.set_terms("fifo", "everyone", "bob=40002:gpus=0")
    # Asking makes the broker look.
    person(CAROL, run("c", "free:1", wait=False)).line()

    assert bob.answer() == NO_GPUS


@pytest.mark.needs("users' processes")
def test_a_group_may_and_the_most_specific_counts(broker, person):
    broker.set_terms("fifo", "everyone:gpus=1", "@gpu=40044:gpus=2", "alice=40001:gpus=3")

    assert (
        person(CAROL, run("c", "free:2")).line() == "3: you may have 1 GPU at once, but this requests 2 (request fewer)"
    )
    assert person(BOB, run("b", "free:2"), groups=[40044]).line() == "got (0, 1)"
    assert person(ALICE, run("a", "free:3"), groups=[40044]).line() == "got (4, 5, 6)"


def test_a_limit_holds_for_all_jobs_of_a_person_together(broker, person):
    broker.set_terms("fifo", "everyone:gpus=2")
    first = person(ALICE, run("first", "free:1"))
    assert first.line() == "got (0,)"
    assert person(ALICE, run("second", "free:1", wait=False)).line() == "got (1,)"
    third = person(ALICE, run("third", "free:1"))
    assert third.line() == "waiting for 1 GPU: 6 free of 8; you have 2 of 2 GPUs"
    refused = person(ALICE, run("fourth", "free:1", wait=False))
    assert refused.line() == "1: you have 2 of 2 GPUs ('amd-ctk run --wait' waits in line)"
    # Who is over a limit holds up nobody.
    assert person(BOB, run("other", "free:1")).line() == "got (2,)"

    first.end()

    assert third.answer() == "got (0,)"


def test_a_permission_may_be_for_some_gpus_only(broker, person):
    broker.set_terms("fifo", "everyone:groups=notebooks")

    assert person(ALICE, run("a", "free:2")).line() == "got (0, 1)"
    assert person(BOB, run("b", "5")).line().startswith("4: ")


def test_a_smaller_request_does_not_overtake(person):
    alice = person(ALICE, run("a", "free:7"))
    alice.line()
    wide = person(BOB, run("wide", "free:8"))
    wide.line()
    narrow = person(CAROL, run("narrow", "free:1"))
    narrow.line()

    assert person(CAROL, run("now", "free:1", wait=False)).line() == (
        "1: GPUs [0 1 2 3 4 5 6] are in use by job a of user 40001; 2 jobs wait for GPUs before this one"
        " ('amd-ctk run --wait' waits in line)"
    )
    assert narrow.is_silent()
    alice.end()
    assert wide.answer() == "got (0, 1, 2, 3, 4, 5, 6, 7)"
    wide.end()
    assert narrow.answer() == "got (0,)"


def test_a_program_of_root_that_does_not_wait_overtakes_nobody(host, person):
    person(ALICE, run("a", "free:7")).line()
    person(BOB, run("b", "free:2")).line()

    with pytest.raises(GpusRefused) as refusal:
        Tracker(host).reserve("free:1", name="program")
    assert str(refusal.value) == (
        "GPUs [0 1 2 3 4 5 6] are in use by job a of user 40001; 1 job waits for GPUs before this one"
        " ('amd-ctk run --wait' waits in line)"
    )


def test_a_stopped_waiter_holds_up_nobody(person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    stopped = person(BOB, run("stopped", "0"))
    stopped.line()
    last = person(CAROL, run("last", "0"))
    last.line()
    stopped.kill(signal.SIGSTOP)

    alice.end()

    assert last.answer() == "got (0,)"
    stopped.kill(signal.SIGCONT)
    last.end()
    assert stopped.answer() == "got (0,)"


def test_a_job_killed_while_waiting_or_running_keeps_nobody(host, person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    second = person(BOB, run("b", "0"))
    second.line()
    third = person(CAROL, run("c", "0"))
    third.line()

    second.kill()
    alice.kill()

    assert third.answer() == "got (0,)"
    assert Tracker(host).waiting() == []


def test_the_time_to_wait_ends(host, person):
    person(ALICE, run("a", "0")).line()
    bob = person(BOB, run("b", "0"), timeout=0.2)

    assert bob.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's a since 12:00"
    assert bob.line() == "12: there was no GPU for b within 0 s"
    wait_until(lambda: Tracker(host).waiting() == [])


def test_disabling_the_tracker_ends_every_wait(host, person):
    person(ALICE, run("a", "free:8")).line()
    waiters = [person(uid, run("b", "free:1")) for uid in (BOB, CAROL)]
    for each in waiters:
        each.line()

    Tracker(host).disable()

    for each in waiters:
        assert each.line().startswith("11: ")


def test_a_user_denied_while_waiting_is_refused(host, broker, person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    bob = person(BOB, run("b", "0"))
    bob.line()
    broker.set_terms("fifo", "alice=40001")

    # Anything that changes lets the broker look.
    person(ALICE, run("other", "1")).line()

    assert bob.line() == NO_GPUS
    assert users(host)[0] == ["40001/a"]


def test_jobs_of_everybody_are_listed_for_everybody(host, person):
    person(ALICE, run("a", "0")).line()
    person(BOB, run("b", "0")).line()
    person(CAROL, run("c", "0")).line()

    tickets = Tracker(host).waiting()
    uses = Tracker(host).status().gpus[0].containers

    assert [(ticket.name, ticket.person) for ticket in tickets] == [("b", BOB), ("c", CAROL)]
    assert [(use.container_id, use.person) for use in uses] == [("40001/a", ALICE)]


def test_a_refusal_names_the_person_who_has_the_gpu(person):
    person(ALICE, run("train", "0")).line()

    refused = person(BOB, run("b", "0", wait=False))

    assert refused.line() == "1: GPUs [0] are exclusive and already in use"
    assert refused.line() == "GPU 0 is in use by job train of user 40001"


@pytest.mark.parametrize(
    ("request_text", "message"),
    [
        ("0", "1: GPUs [0] are exclusive and already in use\nGPU 0 is in use by job train of daemon"),
        (
            "free:8",
            (
                "1: free:8: 7 of 8 GPUs are free (0 exclusive and in use by train of daemon);"
                " 'amd-ctk run --gpus=free:8 --wait -- COMMAND' waits for one"
            ),
        ),
    ],
)
def test_a_refusal_names_the_holder(person, request_text, message):
    person(1, run("train", "0")).line()

    refused = person(BOB, run("b", request_text, wait=False))

    assert "\n".join(refused.line() for _ in message.splitlines()) == message


def test_a_wide_status_says_whose_job_it_is(host, person):
    person(1, run("train", "0")).line()

    table = format_status(Tracker(host).status(), names={})

    assert table.splitlines()[3].split()[:5] == ["0", "0x93BB3629C01AEA1C", "Exclusive", "1/train", "daemon"]


def test_a_container_with_the_token_is_the_persons_and_counts_once(host, broker, person):
    broker.set_terms("fifo", "alice=40001:gpus=2")
    answer = send_request(broker.socket, run("train", "0", behind=ALICE))
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={answer.environment['AMD_CTK_RESERVATION']}"]}}
    container = StartingContainer(container_id="c1", spec=spec, bundle="/b")

    claim = claim_nodes(host, container, granted=locate_gpus(host)[:1])

    assert claim.reserve()
    uses = Tracker(host).status().gpus[0].containers
    assert [(use.container_id, use.person) for use in uses] == [("train", ALICE), ("c1", ALICE)]
    assert person(ALICE, run("second", "free:1", wait=False)).line() == "got (1,)"
    assert person(ALICE, run("third", "free:1", wait=False)).line().startswith("1: you have 2 of 2 GPUs")


def test_grants_and_ends_are_in_the_journal(broker, person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    pid = alice.pid
    alice.end()

    broker.wait_for_line("ended: 40001/a")
    assert broker.lines()[1:3] == [f"granted: job a of user 40001, process {pid}: GPUs [0]", "ended: 40001/a"]


def test_a_waiter_is_root_behind_sudo_and_keeps_the_own_limit(broker, person):
    broker.set_terms("fifo", "alice=40001:gpus=1")

    assert person(0, run("a", "free:2", wait=False, behind=ALICE)).line().startswith("3: you may have 1 GPU at once")
    assert person(0, run("a", "free:2", wait=False)).line() == "got (0, 1)"


@pytest.mark.parametrize("request_text", ["free:9", "9", "", "none", "free:1+group:nobody"])
def test_a_request_that_can_never_be_met_is_refused_at_once(person, request_text):
    assert person(ALICE, run("a", request_text)).line().startswith("4: ")


def test_a_broker_that_is_not_needed_ends(host, broker):
    assert os.WIFEXITED(broker.kill(signal.SIGTERM))
