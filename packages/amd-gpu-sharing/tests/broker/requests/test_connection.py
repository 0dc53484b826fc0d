"""Users take turns, however much there is to do for one of them."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from amd_gpu_sharing.broker.requests.connection import Connection, FairTurns
from amd_gpu_sharing.broker.requests.peer import Peer, Subordinates
from amd_gpu_sharing.broker.requests.protocol import WAITING, Answer
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.host import Host


class Clock:
    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds


def filled(clock, **items):
    turns = FairTurns(clock)
    for uid, count in items.items():
        for number in range(count):
            turns.add(int(uid[1:]), f"{uid}-{number}")
    return turns


def test_each_user_has_one_turn_in_a_round_where_things_take_long():
    clock = Clock()
    turns = filled(clock, u1=1000, u2=2, u3=1)
    done = []

    for item in turns.take(0.01):
        done.append(item)
        clock.seconds += 0.02

    assert done == ["u1-0", "u2-0", "u3-0"]
    assert (len(turns), turns.count_of(1), turns.count_of(2), turns.count_of(3)) == (1000, 999, 1, 0)


def test_a_user_has_as_much_in_a_turn_as_fits_into_it():
    clock = Clock()
    turns = filled(clock, u1=1000, u2=1)
    done = []

    for item in turns.take(0.01):
        done.append(item)
        clock.seconds += 0.004

    assert done == ["u1-0", "u1-1", "u1-2", "u2-0"]


def test_requests_are_served_in_the_order_in_which_they_came():
    turns = filled(Clock(), u1=3)

    assert list(turns.take()) == ["u1-0", "u1-1", "u1-2"]
    assert list(turns.take()) == []


def test_the_uids_of_users_containers_are_read_again_where_they_change(tmp_path: Path):
    (tmp_path / "etc").mkdir()
    subordinates = Subordinates(Host(tmp_path))
    before = subordinates.has(100_005)

    (tmp_path / "etc/subuid").write_text("alice:100000:65536\n")

    assert (before, subordinates.has(100_005), subordinates.has(165_536)) == (False, True, False)


def test_nothing_is_given_to_a_client_that_has_hung_up():
    ours, theirs = socket.socketpair()
    process = Processes().myself()
    client = Connection(ours, Peer(uid=1000, gids=(), process=process), os.pidfd_open(process.pid), time.monotonic)
    theirs.close()

    client.read()
    client.send(Answer(kind=WAITING, message="waiting"))

    assert (client.has_disconnected(), client.is_undelivered) == (True, True)
    client.close()
