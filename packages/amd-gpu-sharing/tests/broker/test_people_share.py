"""People without root have GPUs, wait for them, and cannot take each other's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.client import send_request
from amd_gpu_sharing.broker.requests.protocol import CANCEL, END, KEEP, PREVIEW, RELEASE, RESERVE, Request
from amd_gpu_sharing.service import Service
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.watch.show.table import format_status
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator.runs.breaking import break_gpu
from support.other_user import become
from support.shared_host import ALICE, BOB, CAROL, restart_machine, run, users, wait_until

NO_GPUS = "3: you may not reserve GPUs on this host (ask the administrator for 'sudo amd-ctk users allow 40002')"

TELL_TOKEN = ("sh", "-c", "echo $AMD_CTK_RESERVATION; exec sleep 600")
SLEEP = ("sleep", "600")
ONE_AT_ONCE = "3: you may have 1 GPU at once, but this requests 2 (request fewer)"


@pytest.fixture
def claim(host):
    """Return a function by which a container with a token claims GPU 0, of root or of a user's own engine.

    It returns why that is refused, "" where it has it.
    """
    claiming = []

    def start(container_id, token, *, uid=0):
        told, tell = os.pipe()
        directory = f"{host.root}/run/user/{uid}"
        os.makedirs(directory, exist_ok=True)
        os.chown(directory, uid, uid)
        if not (pid := os.fork()):
            if uid:
                become(uid)
            own = f"{directory}/amd-container-toolkit" if uid else ""
            os.write(tell, f"{_refusal(host, container_id, token, own)}\n".encode())
            # The container lives as long as the test.
            signal.pause()
        claiming.append(pid)
        said = os.read(told, 1000).decode().strip()
        os.close(told)
        os.close(tell)
        return said

    yield start
    for pid in claiming:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _refusal(host, container_id, token, run_directory):
    spec = {"process": {"env": [f"AMD_CTK_RESERVATION={token}"]}}
    container = StartingContainer(container_id=container_id, spec=spec, bundle="/b", run_directory=run_directory)
    try:
        claim_nodes(host, container, granted=locate_gpus(host)[:1]).reserve()
    except BaseException as error:
        return str(error).partition("\n")[0]
    return ""


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


def test_who_waits_is_told_whose_jobs_are_before(person):
    alice = person(ALICE, run("eval", "free:8"))
    alice.line()
    person(BOB, run("sweep-3", "free:8")).line()

    carol = person(CAROL, run("mine", "free:1"))

    assert carol.line() == (
        "waiting for 1 GPU: 0 free of 8, 1 job before this one (40002's sweep-3: 8 GPUs);"
        " GPUs 0-7: 40001's eval since 12:00"
    )


def test_who_names_a_gpu_for_which_others_wait_is_told_who_has_it(person):
    person(ALICE, run("train", "3")).line()
    person(BOB, run("next", "3")).line()

    assert person(CAROL, run("mine", "3", wait=False)).line() == (
        "1: GPU 3 is in use by job train of user 40001; 1 job waits for GPUs before this one"
        " ('amd-ctk run --wait' waits in line)"
    )


def test_who_waits_for_gpus_of_one_hive_is_told_that_the_free_ones_are_apart(host, person):
    person(ALICE, run("train", "0-1,4-5")).line()

    waiting = person(BOB, run("wide", "auto:3+xgmi"))

    assert waiting.line() == "waiting for 3 GPUs: 4 free of 8; 2 of them in one XGMI hive"


def test_who_waits_is_told_the_same_once_however_often_the_service_starts_again(broker, person):
    person(ALICE, run("train", "free:8")).line()
    bob = person(BOB, run("next", "free:1"))
    assert bob.line() == "waiting for 1 GPU: 0 free of 8; GPUs 0-7: 40001's train since 12:00"

    broker.kill()
    broker.start()
    # Who comes after it is told after it.
    person(CAROL, run("last", "free:1")).line()

    assert bob.is_silent()


def test_who_is_limited_to_groups_of_gpus_is_told_so(broker, person):
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


def test_who_is_excluded_leaves_the_line(broker, person):
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


def test_names_belong_to_their_owner(host, broker, person):
    assert person(ALICE, run("train", "0")).line() == "got (0,)"
    assert person(BOB, run("train", "1")).line() == "got (1,)"
    assert person(ALICE, run("train", "2")).line() == ("9: train already has GPUs (give each reservation its own name)")
    waiting = person(BOB, run("late", "0"))
    waiting.line()

    assert person(ALICE, Request(verb=CANCEL, name="late")).line() == (
        "11: no job late waits for GPUs (see 'amd-ctk queue')"
    )
    assert person(ALICE, Request(verb=CANCEL, name="late", owner=BOB)).line() == (
        "3: only root may name another user (run the command with sudo)"
    )
    assert waiting.is_silent()
    assert person(BOB, Request(verb=CANCEL, name="late")).line() == "got ()"
    assert waiting.line() == "12: the job late was removed from the queue"


def test_root_cancels_anybodys_job(person):
    person(ALICE, run("train", "0")).line()
    bobs, carols = person(BOB, run("late", "0")), person(CAROL, run("late", "0"))
    bobs.line()
    carols.line()

    assert person(0, Request(verb=CANCEL, name="late")).line() == (
        "11: 2 users have a waiting job late (name the owner with --user)"
    )
    assert person(0, Request(verb=CANCEL, name="late", owner=CAROL)).line() == "got ()"
    assert carols.line() == "12: the job late was removed from the queue"


def test_a_reservation_is_kept_without_a_process_and_used_by_jobs_of_its_owner(host, person):
    reserve = Request(verb=RESERVE, name="debug", gpus="free:2", seconds=3600)
    assert person(ALICE, reserve).line() == "got (0, 1)"
    assert users(host) == {0: ["40001/debug"], 1: ["40001/debug"]}
    assert person(BOB, run("mine", "0", wait=False)).line().startswith("1: ")
    inside = person(ALICE, run("lab", "", reservation="debug"))
    assert inside.line() == "got (0, 1)"

    assert person(ALICE, run("more", "", reservation="debug")).line() == "got (0, 1)"
    assert person(ALICE, run("third", "0", wait=False)).line().startswith("1: GPUs [0] are exclusive")
    another = "11: you have no reservation debug (see 'amd-ctk queue')"
    assert person(BOB, run("lab", "", reservation="debug")).line() == another
    assert person(BOB, Request(verb=RELEASE, name="debug")).line() == another
    inside.end()
    assert person(ALICE, run("last", "", reservation="debug")).line() == "got (0, 1)"


NOT_HERS = [
    (Request(verb=RELEASE, name="debug"), "11: you have no reservation debug (see 'amd-ctk queue')"),
    (run("lab", "", reservation="debug"), "11: you have no reservation debug (see 'amd-ctk queue')"),
    (
        Request(verb=KEEP, name="debug", seconds=60),
        "11: you have no reservation or job debug (see 'amd-ctk queue')",
    ),
    (Request(verb=END, name="debug"), "11: you have no reservation or job debug (see 'amd-ctk queue')"),
]


@pytest.mark.parametrize(("asked", "told"), NOT_HERS)
def test_nobody_is_told_whether_another_user_has_a_reservation_of_a_name(person, asked, told):
    assert person(BOB, asked).line() == told

    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()

    assert person(BOB, asked).line() == told


def test_a_reservation_that_was_made_with_sudo_is_given_back_and_used_with_sudo(host, person):
    person(0, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600, behind=ALICE)).line()

    with_sudo = "3: the reservation debug belongs to root, because it was made with sudo (run the command with sudo)"
    assert person(ALICE, run("lab", "", reservation="debug")).line() == with_sudo
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == with_sudo
    another = "11: you have no reservation debug (see 'amd-ctk queue')"
    assert person(BOB, Request(verb=RELEASE, name="debug")).line() == another
    assert person(ALICE, Request(verb=KEEP, name="debug", seconds=7200)).line() == "got ()"
    assert person(0, Request(verb=RELEASE, name="debug")).line() == "got ()"
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == another
    assert users(host) == {}


def test_a_job_that_was_begun_with_sudo_is_no_reservation(person):
    person(0, run("train", "0", behind=ALICE), command=SLEEP).line()

    assert person(ALICE, Request(verb=RELEASE, name="train")).line() == (
        "11: you have no reservation train (see 'amd-ctk queue')"
    )


def test_root_hears_of_the_user_that_it_names(person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()

    asked = Request(verb=KEEP, name="debug", seconds=60)
    assert person(0, asked.replace(owner=BOB)).line() == (
        "11: this user has no reservation or job debug (see 'amd-ctk queue')"
    )
    assert person(0, asked.replace(name="other")).line() == (
        "11: there is no reservation or job other (see 'amd-ctk queue')"
    )


ROOTS_QUESTIONS = [
    (Request(verb=RELEASE, name="debug"), "name the owner with --user"),
    (Request(verb=RELEASE, name="debug", owner=0), "name the owner with --user"),
    (Request(verb=RELEASE, name="debug", behind=BOB), "name the owner with --user"),
    (Request(verb=RELEASE, name="debug", behind=ALICE), "run the command without sudo"),
    (run("lab", "", reservation="debug"), "run the command as its owner"),
    (run("lab", "", reservation="debug", behind=ALICE), "run the command without sudo"),
    (run("lab", "", reservation="debug").replace(verb=PREVIEW), "run the command as its owner"),
]


@pytest.mark.parametrize(("asked", "hint"), ROOTS_QUESTIONS)
def test_root_is_told_whose_reservation_it_names(host, person, asked, hint):
    assert person(0, asked).line() == "11: there is no reservation debug (see 'amd-ctk queue')"
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()

    assert person(0, asked).line() == f"11: the reservation debug belongs to user 40001 ({hint})"

    assert users(host) == {0: ["40001/debug"]}


def test_a_command_with_sudo_says_who_typed_it(host, person, monkeypatch):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()
    monkeypatch.setenv("SUDO_UID", str(ALICE))

    told = r"^the reservation debug belongs to user 40001 \(run the command without sudo\)$"
    with pytest.raises(ToolkitError, match=told):
        Service(host).change("release", "debug", None)


def test_root_is_told_of_all_owners_of_a_name_and_uses_the_own_reservation(person):
    for uid, gpu in ((BOB, "1"), (ALICE, "0")):
        person(uid, Request(verb=RESERVE, name="debug", gpus=gpu, seconds=3600)).line()
    release = Request(verb=RELEASE, name="debug")

    assert person(0, release).line() == (
        "11: the reservation debug belongs to user 40001 and user 40002 (name the owner with --user)"
    )
    person(0, Request(verb=RESERVE, name="debug", gpus="2", seconds=3600)).line()
    assert person(0, release).line() == "got ()"


def test_containers_of_several_jobs_share_the_reservation_in_which_these_run(host, broker, person, claim):
    broker.set_terms("fifo", "everyone:gpus=2")
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()
    first = person(ALICE, run("first", "", reservation="debug"), command=TELL_TOKEN)
    first.line()
    assert claim("c1", first.line()) == ""
    first.kill()
    first.ended_by()
    second = person(ALICE, run("second", "", reservation="debug"), command=TELL_TOKEN)
    assert second.line() == "got (0,)"

    assert claim("c2", second.line()) == ""
    assert claim("c3", "40001/debug.0") == "GPUs [0] are exclusive and already in use"
    assert users(host) == {0: ["40001/debug", "c1", "40001/second", "c2"]}
    # All of it is one GPU of hers.
    assert person(ALICE, run("more", "free:1", wait=False)).line() == "got (1,)"


def test_another_user_who_has_read_a_token_gets_nothing(person, claim):
    alice = person(ALICE, run("train", "0"), command=TELL_TOKEN)
    alice.line()
    token = alice.line()
    assert claim("server", token, uid=ALICE) == ""

    assert claim("thief", token, uid=BOB).startswith("GPUs [0] are exclusive, which users get only with a reservation")
    assert claim("helper", token, uid=ALICE) == ""


def test_a_released_reservation_stays_with_the_job_in_it(host, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()
    inside = person(ALICE, run("lab", "", reservation="debug"))
    inside.line()

    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == "got ()"

    assert users(host) == {0: ["40001/lab"]}
    inside.end()
    assert users(host) == {}


def test_a_reservation_ends_by_itself_and_the_next_is_served(host, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="free:8", seconds=1)).line()

    bob = person(BOB, run("next", "free:8"))

    lines = [bob.line()]
    if lines[0].startswith("waiting"):
        lines.append(bob.line())
    assert lines[-1] == "got (0, 1, 2, 3, 4, 5, 6, 7)"
    assert users(host)[0] == ["40002/next"]


def test_who_had_a_reservation_is_told_that_a_restart_of_the_machine_ended_it(host, broker, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="free:2", seconds=3600)).line()
    person(BOB, Request(verb=RESERVE, name="debug", gpus="free:2", seconds=3600)).line()
    broker.kill()
    restart_machine(host, "40001/debug")
    broker.start()

    told = "11: the restart of this machine ended the reservation debug (reserve GPUs again)"
    another = "11: you have no reservation debug (see 'amd-ctk queue')"
    assert person(ALICE, run("lab", "", reservation="debug")).line() == told
    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == told
    assert person(ALICE, Request(verb=KEEP, name="debug", seconds=7200)).line() == told
    # Another's of the same name is that person's.
    assert person(CAROL, Request(verb=RELEASE, name="debug")).line() == another
    assert [(used.container_id, used.how) for used in Tracker(host).history(since=0, until=1e10)] == [
        ("40002/debug", "running"),
        ("40001/debug", "power"),
    ]


def test_the_end_of_a_job_is_recorded_when_it_ends_and_not_when_somebody_looks(host, broker, person):
    alice = person(ALICE, run("train", "free:1"))
    alice.line()
    opened = Path(host.path("/var/lib/amd-container-toolkit/history/open"))
    assert [path.name for path in opened.iterdir()] == ["40001%2Ftrain@"]

    alice.end()

    wait_until(lambda: not list(opened.iterdir()))
    ((ended,),) = (Tracker(host).history(since=0, until=1e10),)
    assert (ended.container_id, ended.how, ended.is_certain) == ("40001/train", "program", True)


@pytest.mark.parametrize(("runs", "how"), [(True, "program"), (False, "found")])
def test_an_end_that_another_command_sees_first_is_certain_while_the_service_runs(host, broker, person, runs, how):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    if runs:
        # It does not see the end before the command below.
        os.kill(broker.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, broker.pid, os.WSTOPPED | os.WNOWAIT)
    else:
        broker.kill()
    alice.end()

    Tracker(host).reserve("0", name="program").release()

    ended = {each.container_id: (each.how, each.is_certain) for each in Tracker(host).history(since=0, until=1e10)}
    assert ended["40001/train"] == (how, runs)


def test_a_reservation_whose_time_would_be_over_is_not_told_of(host, broker, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="free:2", seconds=1)).line()
    broker.kill()
    restart_machine(host, "40001/debug", earlier=3600)
    broker.start()

    assert person(ALICE, Request(verb=RELEASE, name="debug")).line() == (
        "11: you have no reservation debug (see 'amd-ctk queue')"
    )


def test_a_reservation_and_its_job_count_once(broker, person):
    broker.set_terms("fifo", "everyone:gpus=2")
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="free:1", seconds=3600)).line()
    assert person(ALICE, run("lab", "", reservation="debug")).line() == "got (0,)"

    assert person(ALICE, run("train", "free:1", wait=False)).line() == "got (1,)"


def test_nobody_is_overtaken_by_one_who_wants_less(person):
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


def test_who_was_stopped_holds_up_nobody(person):
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


def test_who_is_killed_while_waiting_or_running_keeps_nobody(host, person):
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


def test_who_is_denied_while_waiting_is_told_so(host, broker, person):
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
def test_who_asks_is_told_a_name(person, request_text, message):
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


def test_what_happened_is_on_record(broker, person):
    alice = person(ALICE, run("a", "0"))
    alice.line()
    pid = alice.pid
    alice.end()

    wait_until(lambda: len(broker.lines()) >= 3)
    assert broker.lines()[1:3] == [f"granted: job a of user 40001, process {pid}: GPUs [0]", "ended: 40001/a"]


def test_a_waiter_is_root_behind_sudo_and_keeps_the_own_limit(broker, person):
    broker.set_terms("fifo", "alice=40001:gpus=1")

    assert person(0, run("a", "free:2", wait=False, behind=ALICE)).line().startswith("3: you may have 1 GPU at once")
    assert person(0, run("a", "free:2", wait=False)).line() == "got (0, 1)"


@pytest.mark.parametrize("request_text", ["free:9", "9", "", "none", "free:1+group:nobody"])
def test_what_can_never_be_met_is_refused_at_once(person, request_text):
    assert person(ALICE, run("a", request_text)).line().startswith("4: ")


def test_a_broker_that_is_not_needed_ends(host, broker):
    assert os.WIFEXITED(broker.kill(signal.SIGTERM))
