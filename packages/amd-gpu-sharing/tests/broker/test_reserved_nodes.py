"""Where only reserved GPUs may be opened: users open what they have, with real uids, nodes and lists."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.client import send_request
from amd_gpu_sharing.broker.requests.protocol import RELEASE, RESERVE, Request
from amd_gpu_sharing.node_access.nodes import RULE, close_nodes, find_nodes, give_back, read_users, set_users
from amd_gpu_tracker.book.state import RULE_FILE
from amd_gpu_tracker.claims.container import StartingContainer, claim_nodes
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.choices.rules import ChoiceRules
from amdgpu_discovery.errors import FileError
from amdgpu_discovery.numbering import locate_gpus
from support.other_user import become
from support.shared_host import ALICE, BOB, run, users, wait_until

# Memory that is always zero: opening it harms nothing.
ZERO = os.makedev(1, 5)
KFD = "/dev/kfd"


@pytest.fixture
def host(host):
    """Return the host with nodes that open, of which only root may open any."""
    for node in find_nodes(host):
        os.unlink(host.path(node))
        os.mknod(host.path(node), stat.S_IFCHR | 0o600, ZERO)
    close_nodes(host, {})
    return host


@pytest.fixture
def broker(broker):
    broker.is_reserved = True
    broker.set_terms("fifo", "everyone")
    return broker


def opens(host, uid, path):
    """Return whether a process of a user can open a node."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            become(uid)
            os.close(os.open(host.path(path), os.O_RDWR))
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def who_opens(host, number):
    """Return who of alice and bob can open KFD, and who the render node of a GPU."""
    nodes = (KFD, locate_gpus(host)[number].render_path)
    return tuple([name for name, uid in (("alice", ALICE), ("bob", BOB)) if opens(host, uid, node)] for node in nodes)


def test_only_the_holder_of_a_gpu_opens_its_node(host, person):
    assert who_opens(host, 0) == ([], [])
    alice = person(ALICE, run("train", "0"))
    assert alice.line() == "got (0,)"

    assert who_opens(host, 0) == (["alice"], ["alice"])
    assert who_opens(host, 1) == (["alice"], [])

    alice.end()
    wait_until(lambda: who_opens(host, 0) == ([], []))


def test_an_open_descriptor_works_after_the_end(host, person):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    ended, end = os.pipe()
    opening, has_opened = os.pipe()
    pid = os.fork()
    if not pid:
        code = 1
        try:
            become(ALICE)
            opened = os.open(host.path(locate_gpus(host)[0].render_path), os.O_RDWR)
            os.write(has_opened, b"x")
            os.read(ended, 1)
            code = 0 if os.read(opened, 1) == b"\0" else 2
        finally:
            os._exit(code)

    os.read(opening, 1)
    alice.end()
    wait_until(lambda: who_opens(host, 0) == ([], []))
    os.write(end, b"x")

    assert os.waitpid(pid, 0)[1] == 0


def start(host, number, *, environment=()):
    """Reserve a GPU for a container, as its start does."""
    container = StartingContainer(container_id="c1", spec={"process": {"env": [*environment]}}, bundle="/b")
    return claim_nodes(host, container, granted=[locate_gpus(host)[number]]).reserve()


@pytest.fixture
def unclosed(host, broker, person):
    """Return the host after alice's job on GPUs 0 and 1 has ended while the service was stopped."""
    alice = person(ALICE, run("train", "0-1"))
    alice.line()
    broker.kill()
    alice.end()
    assert [who_opens(host, number)[1] for number in (0, 1)] == [["alice"], ["alice"]]
    return host


def test_a_container_that_has_a_gpu_alone_shares_it_with_no_user_whose_job_ended_unseen(unclosed):
    assert start(unclosed, 0)

    assert [who_opens(unclosed, number)[1] for number in (0, 1)] == [[], ["alice"]]


@pytest.mark.parametrize("gpus", ["1", "auto:1"])
def test_a_new_part_of_a_gpu_leaves_its_node_open_to_who_has_another_while_the_service_is_stopped(unclosed, gpus):
    sharing = Tracker(unclosed, rules=ChoiceRules(groups={}, shares_by_vram=True))
    Tracker(unclosed).drain("0,2-7")
    sharing.reserve("1", name="first", vram_mb=1000)
    assert who_opens(unclosed, 1)[1] == []
    set_users(unclosed.path(locate_gpus(unclosed)[1].render_path), [ALICE])

    assert sharing.reserve(gpus, name="second", vram_mb=1000).numbers == (1,)

    assert who_opens(unclosed, 1)[1] == ["alice"]


def test_a_container_whose_gpu_cannot_be_closed_to_a_user_is_refused(unclosed):
    node = locate_gpus(unclosed)[0].render_path
    # Its list cannot be written.
    os.rename(unclosed.path("/dev/dri"), unclosed.path("/dev/moved"))
    Path(unclosed.path("/dev/dri")).touch()

    with pytest.raises(FileError) as refused:
        start(unclosed, 0)

    assert (
        refused.value.message
        == f"users who had {node} before cannot be kept from it: a part of its path is not a directory"
    )
    assert users(unclosed) == {}


def test_a_container_in_a_job_leaves_the_gpu_open_to_its_user(host, broker, person):
    alice = person(ALICE, run("train", "0"), command=("sh", "-c", "echo $AMD_CTK_RESERVATION; exec sleep 600"))
    assert alice.line() == "got (0,)"
    token = alice.line()
    # The service cannot correct the list.
    os.kill(broker.pid, signal.SIGSTOP)

    assert start(host, 0, environment=[f"AMD_CTK_RESERVATION={token}"])

    assert who_opens(host, 0)[1] == ["alice"]


def test_a_new_part_of_a_gpu_leaves_its_node_open_to_who_has_another(host, broker, person):
    broker.shares_by_vram = True
    broker.set_terms("fifo", "everyone")
    alice = person(ALICE, run("a", "0", vram_mb=1000))
    assert alice.line() == "got (0,)"
    assert person(BOB, run("b", "auto:1", vram_mb=1000)).line() == "got (0,)"
    assert person(BOB, run("c", "0", vram_mb=1000)).line() == "got (0,)"
    render = host.path(locate_gpus(host)[0].render_path)
    assert read_users(render) == {ALICE, BOB}

    alice.end()

    wait_until(lambda: read_users(render) == {BOB})


def test_kfd_stays_open_as_long_as_a_user_has_any_gpu(host, person):
    first, second = person(ALICE, run("a", "0")), person(ALICE, run("b", "1"))
    first.line(), second.line()

    first.end()
    wait_until(lambda: who_opens(host, 0)[1] == [])

    assert who_opens(host, 1) == (["alice"], ["alice"])


def test_a_waiter_opens_the_nodes_that_the_holder_before_cannot_open_any_more(host, person):
    alice = person(ALICE, run("train", "free:8"))
    alice.line()
    bob = person(BOB, run("eval", "free:8"))
    assert bob.line() == "waiting for 8 GPUs: 0 free of 8; GPUs 0-7: 40001's train since 12:00"

    alice.end()

    assert bob.answer() == "got (0, 1, 2, 3, 4, 5, 6, 7)"
    wait_until(lambda: who_opens(host, 7) == (["bob"], ["bob"]))


def test_a_reservation_by_hand_opens_nodes_until_it_is_given_back(host, broker, person):
    def reserve_and_release():
        become(ALICE)
        send_request(broker.socket, Request(verb=RESERVE, name="debug", gpus="3", seconds=3600))

    in_child(reserve_and_release)
    assert who_opens(host, 3) == (["alice"], ["alice"])

    send_request(broker.socket, Request(verb=RELEASE, name="debug", owner=ALICE))
    wait_until(lambda: who_opens(host, 3) == ([], []))


def test_root_needs_no_entry(host, person):
    person(0, run("train", "0", behind=ALICE)).line()

    assert read_users(host.path(KFD)) == frozenset()


def test_access_that_others_change_is_set_again_from_the_leases(host, person):
    person(ALICE, run("train", "0")).line()
    node = host.path(locate_gpus(host)[0].render_path)

    set_users(node, [])
    wait_until(lambda: read_users(node) == {ALICE})
    set_users(node, [ALICE, BOB])
    wait_until(lambda: read_users(node) == {ALICE})
    os.unlink(node)
    os.mknod(node, stat.S_IFCHR | 0o660, ZERO)
    wait_until(lambda: read_users(node) == {ALICE})


def test_a_broker_that_was_killed_opens_and_closes_at_its_start_what_the_leases_say(host, broker, person):
    alice = person(ALICE, run("train", "0"))
    alice.line()
    broker.kill()
    set_users(host.path(KFD), [BOB])

    broker.start()
    wait_until(lambda: who_opens(host, 0) == (["alice"], ["alice"]))

    broker.kill()
    alice.end()
    assert who_opens(host, 0) == (["alice"], ["alice"])
    broker.start()
    wait_until(lambda: who_opens(host, 0) == ([], []))


def test_a_gpu_that_cannot_be_opened_to_its_holder_is_not_given(host, person):
    first, second = (gpu.render_path for gpu in locate_gpus(host)[:2])
    os.unlink(host.path(first))
    # A link keeps no list of its own.
    os.symlink(os.path.basename(second), host.path(first))

    assert person(ALICE, run("train", "0")).line() == (
        f"5: {first} cannot be opened to user 40001: Operation not supported (run 'amd-ctk doctor')"
    )
    assert read_users(host.path(second)) == frozenset()
    assert users(host) == {}


def test_without_the_setting_nobody_touches_the_nodes(host, broker, person):
    broker.is_reserved = False
    broker.set_terms("fifo", "everyone")

    assert person(ALICE, run("train", "0")).line() == "got (0,)"

    assert who_opens(host, 0) == ([], [])


def test_nodes_are_closed_by_a_rule_and_given_back_with_their_usual_mode(host, person):
    person(ALICE, run("train", "0")).line()
    assert find_nodes(host)[KFD] == "render"
    assert len(find_nodes(host)) == 17
    assert Path(host.path(RULE_FILE)).read_text(encoding="utf-8") == RULE
    assert {modes(host, node) for node in find_nodes(host)} == {(0, 0, 0o660)}

    Tracker(host).disable()

    assert not os.path.exists(host.path(RULE_FILE))
    groups = {modes(host, node)[1] for node in find_nodes(host)}
    assert 0 not in groups
    assert {modes(host, node)[::2] for node in find_nodes(host)} == {(0, 0o660)}
    wait_until(lambda: read_users(host.path(KFD)) == frozenset())
    assert give_back(host) is False


def test_a_holder_opens_its_gpu_after_nodes_are_closed_again(host):
    render = locate_gpus(host)[0].render_path

    close_nodes(host, {KFD: {ALICE}, render: {ALICE}})

    assert who_opens(host, 0) == (["alice"], ["alice"])
    assert who_opens(host, 1) == (["alice"], [])


def modes(host, node):
    status = os.stat(host.path(node))
    return status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)


def in_child(act):
    pid = os.fork()
    if not pid:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
