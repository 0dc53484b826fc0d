"""Users who mean harm: what they send, how often, and as whom they pass themselves off."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import time
from contextlib import suppress

import pytest

from amd_gpu_sharing.broker import server
from amd_gpu_sharing.broker.requests.client import connect, is_listening, is_served
from amd_gpu_sharing.broker.requests.people import LARGEST_UID
from amd_gpu_sharing.broker.requests.protocol import LARGEST_LINE, RESERVE, RUN, Request, format_request
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from support.other_user import become
from support.shared_host import ALICE, BOB, CAROL, SECONDS, run, users, wait_until

NO_ACCOUNT = f"3: user {BOB} has no account (run the command outside the container)"
HONEST = {"version": 1, **run("a", "free:1").as_dict()}


def in_process_of(uid, action):
    """Run an action as another user, and return what it returns; None where that takes a minute."""
    said, say = os.pipe()

    def act():
        signal.alarm(60)
        become(uid)
        os.write(say, json.dumps(action()).encode())

    pid = forked(act)
    os.close(say)
    with open(said, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return json.loads(answer) if answer else None


def forked(action):
    """Run an action in a process of its own, which ends with it whatever happens, and return its id."""
    pid = os.fork()
    if not pid:
        try:
            action()
        finally:
            os._exit(0)
    return pid


def send(path, content):
    """Send anything, and return all that comes back, as JSON where there is something."""
    with connect(path) as connected:
        connected.settimeout(30)
        with suppress(BrokenPipeError, ConnectionResetError):
            connected.sendall(content)
        answers = b""
        # Who is sent away before the request was read is told why, and then that it was not read.
        with suppress(ConnectionResetError):
            while more := connected.recv(65536):
                answers += more
        return json.loads(answers.splitlines()[0]) if answers else None


@pytest.mark.parametrize(
    "content",
    [
        b"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"\xff\xfe\n",
        b'"' + b"a" * 3000 + b"\n",
        b"[" * 4000 + b"\n",
        b'{"version":1}\n',
        json.dumps({**HONEST, "version": 2}).encode() + b"\n",
        json.dumps({**HONEST, "verb": "own"}).encode() + b"\n",
        json.dumps({**HONEST, "more": 1}).encode() + b"\n",
        json.dumps({**HONEST, "name": 7}).encode() + b"\n",
        json.dumps({**HONEST, "name": "a" * 65}).encode() + b"\n",
        json.dumps({**HONEST, "name": "../../etc"}).encode() + b"\n",
        json.dumps({**HONEST, "name": "40001/a"}).encode() + b"\n",
        json.dumps({**HONEST, "gpus": "0\n1"}).encode() + b"\n",
        json.dumps({**HONEST, "gpus": "0," * 700}).encode() + b"\n",
        json.dumps({**HONEST, "seconds": -1}).encode() + b"\n",
        json.dumps({**HONEST, "seconds": 1e300}).encode() + b"\n",
        json.dumps({**HONEST, "seconds": True, "verb": "reserve"}).encode() + b"\n",
        json.dumps({**HONEST, "numbers": [-1]}).encode() + b"\n",
        json.dumps({**HONEST, "numbers": [10**40]}).encode() + b"\n",
        json.dumps({**HONEST, "numbers": "0"}).encode() + b"\n",
        json.dumps({**HONEST, "owner": LARGEST_UID + 1}).encode() + b"\n",
        json.dumps({**HONEST, "wait": "yes"}).encode() + b"\n",
        json.dumps({**HONEST, "reservation": "../1/debug"}).encode() + b"\n",
    ],
)
def test_bytes_that_are_no_request_are_refused_and_the_service_goes_on(host, broker, person, content):
    answer = in_process_of(BOB, lambda: send(broker.socket, content))

    assert answer["kind"] == "refused"
    assert answer["environment"] == {}
    assert users(host) == {}
    assert person(ALICE, run("a", "free:1")).line() == "got (0,)"


@pytest.mark.parametrize("field", ["numbers", "behind", "name", "rules", "wait"])
def test_lists_in_lists_of_any_depth_end_no_broker(broker, person, field):
    """Python reads JSON to another depth than it prints it."""

    def ask_all():
        begun = json.dumps({name: value for name, value in HONEST.items() if name != field})[:-1]
        return [
            send(broker.socket, f'{begun},"{field}":{"[" * depth}{"]" * depth}}}\n'.encode())["kind"]
            for depth in range(900, 1001, 3)
        ]

    assert set(in_process_of(BOB, ask_all)) == {"refused"}
    assert person(ALICE, run("a", "free:1")).line() == "got (0,)"


def test_a_key_of_a_later_version_that_holds_a_list_ends_no_broker(host, broker, person):
    person(ALICE, run("train", "0")).line()
    (path,) = State(host).lease_paths()
    with open(path, encoding="utf-8") as file:
        lease = json.load(file)
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps({**lease, "later": ["x", {}]}, separators=(",", ":")) + "\n")

    bob = person(BOB, run("next", "0"))

    assert bob.line().startswith("waiting for 1 GPU: 0 free of 1 that fits")
    assert person(BOB, run("other", "0", wait=False)).line().startswith("1: ")


@pytest.mark.parametrize("other", [{"version": 2}, {"more": 1}])
def test_a_request_of_another_version_is_answered_with_what_to_do(broker, other):
    content = json.dumps({**HONEST, **other}).encode() + b"\n"

    answer = in_process_of(BOB, lambda: send(broker.socket, content))

    assert (answer["kind"], answer["hint"]) == (
        "refused",
        "install the same version on both sides, and restart the service",
    )


def test_a_line_without_an_end_is_cut_off(broker, person):
    answer = in_process_of(BOB, lambda: send(broker.socket, b"a" * (2 * LARGEST_LINE)))

    assert answer is None or answer["kind"] == "refused"
    assert person(ALICE, run("a", "free:1")).line() == "got (0,)"


def test_half_a_line_or_none_delays_nobody(broker, person):
    # The connection by which a test sees that the broker has started may still be open.
    opened = sockets_of(broker.pid)
    silent = [connect(broker.socket) for _ in range(200)]
    for each in silent[:100]:
        each.sendall(b'{"version":1')

    assert person(ALICE, run("a", "free:1")).line() == "got (0,)"
    wait_until(lambda: len(sockets_of(broker.pid) - opened) >= len(silent))
    broker.pass_time(10)
    for each in silent:
        each.settimeout(60)
        assert each.recv(1) == b""
        each.close()


def test_a_client_with_too_many_connections_is_refused(broker, monkeypatch):
    broker.kill()
    monkeypatch.setattr(server, "MOST_USER_CONNECTIONS", 2)
    broker.start()

    def connect_thrice():
        open_ones = [connect(broker.socket) for _ in range(2)]
        return send(broker.socket, format_request(run("a", "free:1"))), len(open_ones)

    answer, _ = in_process_of(BOB, connect_thrice)

    assert (answer["kind"], answer["message"], answer["hint"]) == (
        "refused",
        f"user {BOB} has 2 connections",
        "try again later",
    )


def test_a_user_gets_no_more_than_half_of_few_descriptors(broker):
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (256, 256))

    def connect_often():
        open_ones = [connect(broker.socket) for _ in range(64)]
        return send(broker.socket, format_request(run("a", "free:1"))), len(open_ones)

    answer, _ = in_process_of(BOB, connect_often)

    assert answer["message"] == f"user {BOB} has 64 connections"


def test_a_flood_of_connections_of_one_user_keeps_no_other_out(broker, person):
    said, say = os.pipe()

    def flood():
        become(BOB)
        # In a container of Podman it may be 1024.
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        held = [connect(broker.socket) for _ in range(min(hard - 64, 1500))]
        os.write(say, b"x")
        time.sleep(len(held))

    flooding = forked(flood)
    # Then a child that fails is the end of the pipe.
    os.close(say)
    try:
        assert os.read(said, 1) == b"x"
        for number in range(5):
            assert person(ALICE, run(f"a{number}", str(number))).line() == f"got ({number},)"
    finally:
        os.kill(flooding, signal.SIGKILL)
        os.waitpid(flooding, 0)


def test_a_client_for_which_no_descriptor_is_left_is_refused_and_others_are_served(broker, person):
    alice = person(ALICE, run("a", "all"))
    assert alice.line() == "got (0, 1, 2, 3, 4, 5, 6, 7)"
    waiting = person(ALICE, run("b", "0"))
    assert waiting.line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: a since 12:00"
    opened = sockets_of(broker.pid)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (80, 80))
    silent = [connect(broker.socket) for _ in range(20)]

    assert person(BOB, run("c", "0")).line() == "2: too many jobs are already waiting (try again later)"

    alice.end()
    assert waiting.answer() == "got (0,)"
    for each in silent:
        each.close()
    wait_until(lambda: sockets_of(broker.pid) <= opened)
    assert person(BOB, run("d", "1")).line() == "got (1,)"


def test_a_broker_takes_as_many_descriptors_as_it_may_have(broker):
    broker.kill()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        broker.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert resource.prlimit(broker.pid, resource.RLIMIT_NOFILE)[0] in (65_536, hard)


def test_a_client_that_sends_without_end_loses_its_connection(host, broker, person):
    person(ALICE, run("a", "0")).line()
    noisy = connect(broker.socket)
    noisy.sendall(format_request(run("noisy", "0")))
    assert b"waiting" in noisy.recv(4096)
    noisy.sendall(b"more")

    noisy.settimeout(60)
    assert noisy.recv(1) == b""
    noisy.close()
    assert person(BOB, run("b", "1")).line() == "got (1,)"


def test_a_client_that_never_reads_loses_its_connection_and_delays_nobody(broker, person):
    person(ALICE, run("a", "free:8")).line()
    deaf = connect(broker.socket)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    deaf.sendall(format_request(run("deaf", "free:1")))
    waiting = person(BOB, run("b", "free:1"))

    assert waiting.line().startswith("waiting")
    deaf.close()


def test_a_client_cannot_claim_to_be_another_user(host, broker):
    forged = {**HONEST, "owner": ALICE, "behind": ALICE}

    answer = in_process_of(BOB, lambda: send(broker.socket, json.dumps(forged).encode() + b"\n"))

    assert answer["kind"] == "granted"
    assert answer["environment"]["AMD_CTK_RESERVATION"].startswith(f"{BOB}/a.")


def test_a_reservation_of_another_cannot_be_shadowed_or_used(host, person):
    person(ALICE, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line()

    assert person(BOB, Request(verb=RESERVE, name="debug", gpus="0", seconds=3600)).line().startswith("1: ")
    assert person(BOB, run("x", "", reservation="debug")).line() == (
        "11: you have no reservation debug (see 'amd-ctk queue')"
    )
    assert person(BOB, run("x", "", reservation="debug", owner=ALICE)).line().startswith("3: ")
    assert users(host) == {0: ["40001/debug"]}


def test_a_client_that_ends_before_the_answer_gets_no_gpu(host, broker, person):
    def ask_and_end():
        become(BOB)
        connect(broker.socket).sendall(format_request(run("b", "0")))

    for _ in range(20):
        os.waitpid(forked(ask_and_end), 0)

    alice = person(ALICE, run("a", "0"))
    lines = [alice.line()]
    if lines[0].startswith("waiting"):
        lines.append(alice.line())
    assert lines[-1] == "got (0,)"
    assert users(host) == {0: ["40001/a"]}


def test_a_connection_that_was_handed_on_gives_gpus_to_who_connected(host, broker):
    connected = connect(broker.socket)

    def ask():
        become(BOB)
        connected.sendall(format_request(run("b", "0")))
        connected.recv(4096)

    os.waitpid(forked(ask), 0)

    # Root's process connected: it is a job of root, and bob has nothing.
    assert users(host) == {0: ["b"]}
    connected.close()


def test_subordinate_ids_are_nobody(host, broker, person):
    with open(host.path("/etc/subuid"), "w", encoding="utf-8") as file:
        file.write(f"alice:{BOB}:65536\nbroken:x:y\n:::\n")

    assert person(BOB, run("b", "0")).line() == f"3: user {BOB} has no account (run the command outside the container)"
    assert person(ALICE, run("a", "0")).line() == "got (0,)"


def test_a_process_of_several_users_is_refused(broker):
    said, say = os.pipe()

    def ask_by_half():
        os.setgroups([])
        # As a setuid program is: bob started it, and it acts as alice.
        os.setresuid(BOB, ALICE, ALICE)
        os.write(say, json.dumps(send(broker.socket, format_request(run("b", "0")))).encode())

    pid = forked(ask_by_half)
    os.close(say)
    with open(said, "rb") as file:
        answer = json.loads(file.read())
    os.waitpid(pid, 0)
    assert answer["kind"] == "refused"
    assert answer["message"].endswith("runs as several users")


def test_symbolic_links_and_pipes_in_the_directory_of_tickets_are_no_tickets(host, broker, person):
    waiting = host.path("/run/amd-container-toolkit/waiting")
    os.makedirs(waiting, exist_ok=True)
    os.mkfifo(f"{waiting}/00000000000000000001-pipe.json")
    os.symlink("/etc/passwd", f"{waiting}/00000000000000000002-link.json")
    os.symlink("/dev/zero", f"{waiting}/00000000000000000003-zero.json")
    broker.kill()
    broker.start()

    person(ALICE, run("a", "0")).line()
    assert person(BOB, run("b", "0")).line() == "waiting for 1 GPU: 0 free of 1 that fits; GPU 0: 40001's a since 12:00"


def test_a_broker_that_only_listens_does_not_serve(broker):
    assert is_served(broker.socket)

    os.kill(broker.pid, signal.SIGSTOP)
    try:
        assert is_listening(broker.socket)
        assert not is_served(broker.socket, 0.2)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    assert is_served(broker.socket)

    broker.kill()
    assert os.path.exists(broker.socket)
    assert not is_served(broker.socket)


@pytest.mark.parametrize("verb", [RUN, RESERVE])
def test_names_of_ending_jobs_are_refused(host, person, verb):
    asked = Request(verb=verb, name="train.ending", gpus="0", seconds=60)

    assert person(ALICE, asked).line() == (
        "2: names that end in .ending belong to jobs that are ending (choose another)"
    )
    assert users(host) == {}


def sockets_of(pid):
    links = set()
    for entry in os.scandir(f"/proc/{pid}/fd"):
        # It may have been closed meanwhile.
        with suppress(FileNotFoundError):
            links.add(os.readlink(entry.path))
    return {link for link in links if link.startswith("socket:")}


@pytest.mark.parametrize("wait", [False, True])
def test_a_request_whose_process_has_ended_is_refused_at_once(host, broker, wait):
    ours, theirs = socket.socketpair()

    def connect_and_pass_on():
        become(ALICE)
        connected = connect(broker.socket)
        socket.send_fds(theirs, [b"x"], [connected.fileno()])
        signal.pause()

    pid = forked(connect_and_pass_on)
    theirs.close()
    with ours:
        connected = socket.socket(fileno=socket.recv_fds(ours, 1, 1)[1][0])
    # The service has accepted a connection before it answers a later one.
    broker.wake()
    broker.wake()
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)

    connected.settimeout(SECONDS)
    with connected, connected.makefile("rb") as answers:
        connected.sendall(format_request(run("train", "0", wait=wait)))
        (answer,) = map(json.loads, answers)

    assert (answer["kind"], answer["message"]) == ("refused", "the requesting process has ended")
    assert users(host) == {}


@pytest.mark.parametrize("days", [-400, 400])
@pytest.mark.needs("users' processes")
def test_a_wall_clock_that_jumps_ends_no_job_and_moves_nobody_in_line(host, broker, person, monkeypatch, days):
    broker.set_terms("fifo", "everyone:time=1h")
    alice = person(ALICE, run("a", "0"), command=("sleep", "600"))
    alice.line()
    bob = person(BOB, run("b", "0"))
    bob.line()
    before = sockets_of(bob.pid)
    broker.kill()
    wall = time.time
    monkeypatch.setattr(time, "time", lambda: wall() + days * 86400)
    broker.start()
    # In an hour nobody waits for one who has not come back.
    wait_until(lambda: sockets_of(bob.pid) - before)
    carol = person(CAROL, run("c", "0"))
    carol.line()

    assert users(host) == {0: [f"{ALICE}/a"]}
    assert all(0 <= time.time() - each.since < 3600 for each in Tracker(host).waiting())
    broker.pass_time(3600)
    assert alice.ended_by() == signal.SIGTERM
    assert bob.answer() == "got (0,)"
    bob.end()
    assert carol.answer() == "got (0,)"
