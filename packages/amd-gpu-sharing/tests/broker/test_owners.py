"""Reservations and jobs belong to their owners: who may use, end and see them, and when they end."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.protocol import CANCEL, END, KEEP, PREVIEW, RELEASE, RESERVE, Request
from amd_gpu_sharing.service import Service
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.numbering import locate_gpus
from support.other_user import become
from support.shared_host import ALICE, BOB, CAROL, restart_machine, run, users, wait_until

TELL_TOKEN = ("sh", "-c", "echo $AMD_CTK_RESERVATION; exec sleep 600")
SLEEP = ("sleep", "600")


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
def test_a_reservations_name_is_hidden_from_other_users(person, asked, told):
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


def test_an_error_for_root_names_the_user_that_root_named(person):
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


def test_the_owner_of_a_reservation_reads_that_a_restart_of_the_machine_ended_it(host, broker, person):
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
