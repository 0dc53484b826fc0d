"""What a client makes of a socket on which many ask at once."""

from __future__ import annotations

import socket
import threading

import pytest

from amd_gpu_sharing.broker.requests import client
from amd_gpu_sharing.broker.requests.client import connect, is_served
from amd_gpu_sharing.broker.requests.protocol import ProtocolError, parse_answer


@pytest.fixture
def full_queue(tmp_path):
    """Return a socket that has as many connections as wait at once, with its path."""
    path = str(tmp_path / "gpus.socket")
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        listening.bind(path)
        listening.listen(0)
        first.connect(path)
        yield listening, path


def test_a_service_with_a_full_queue_is_asked_again_until_its_time_is_over(full_queue):
    listening, path = full_queue

    def serve():
        for _ in range(2):
            connected, _ = listening.accept()
            connected.sendall(b"{}\n")
            connected.close()

    later = threading.Timer(0.2, serve)
    later.start()

    assert is_served(path, 60)
    later.join()


def test_a_service_that_sends_its_client_away_before_this_has_asked_serves(full_queue, monkeypatch):
    listening, path = full_queue
    listening.accept()[0].close()

    def connect_late(*words):
        connected = connect(*words)
        served, _ = listening.accept()
        with served:
            served.sendall(b"{}\n")
        return connected

    # No other way makes the service quicker than its client each time.
    monkeypatch.setattr(client, "connect", connect_late)

    assert is_served(path, 60)


def test_a_service_whose_queue_stays_full_does_not_serve(full_queue):
    _, path = full_queue

    assert not is_served(path, 0.1)


@pytest.mark.parametrize("line", [b'{"version":1}', b'{"version":1,"numbers":[1]}', b'{"version":1,"kind":""}'])
def test_an_answer_that_does_not_say_what_was_done_is_none(line):
    with pytest.raises(ProtocolError, match="the answer cannot be understood"):
        parse_answer(line)
