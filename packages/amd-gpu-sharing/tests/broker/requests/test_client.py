"""What a client makes of a socket on which many ask at once."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from amd_gpu_sharing.broker.requests import client
from amd_gpu_sharing.broker.requests.client import connect, is_served
from amd_gpu_sharing.broker.requests.protocol import ProtocolError, Request, parse_answer


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


@pytest.fixture
def short_silence(monkeypatch):
    """Let a client say at once that nobody answers, and give up soon."""
    monkeypatch.setattr(client, "SILENT_SECONDS", 0.05)
    monkeypatch.setattr(client, "FIRST_ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(client, "RECONNECT_SECONDS", 0.4)


@pytest.fixture
def mute_service(tmp_path):
    """Return the path of a socket at which connections are accepted by the kernel, and nobody answers."""
    path = str(tmp_path / "gpus.socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(8)
        yield path


NOT_ANSWERING = "the service that gives out GPUs does not answer; waiting for it"


@pytest.mark.parametrize("verb", ["run", "reserve", "cancel"])
def test_a_service_that_does_not_answer_is_named_and_given_up(mute_service, short_silence, verb):
    said = []

    with pytest.raises(client.ServiceSilent, match="did not answer within 0 s") as failure:
        client.send_request(mute_service, Request(verb=verb, name="train"), notify=said.append)

    assert said == [NOT_ANSWERING]
    assert failure.value.exit_code == 14
    assert failure.value.hint == "'systemctl status amd-gpu-tracker' says why"


def test_the_end_of_a_wait_does_not_claim_that_there_was_no_gpu(mute_service, short_silence):
    said = []

    with pytest.raises(client.ServiceSilent, match="did not answer within 0 s"):
        client.send_request(mute_service, Request(verb="run", name="train", wait=True), timeout=0.3, notify=said.append)

    assert said == [NOT_ANSWERING]


@pytest.mark.parametrize("waits", [False, True])
def test_a_request_that_ends_the_service_twice_is_not_sent_again(tmp_path, waits):
    path, said, asked = str(tmp_path / "gpus.socket"), [], []
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)

        def die_each_time():
            with contextlib.suppress(OSError):
                while True:
                    connected, _ = listening.accept()
                    with connected:
                        asked.append(connected.recv(4096))

        dying = threading.Thread(target=die_each_time, daemon=True)
        dying.start()
        with pytest.raises(client.ServiceFailed, match="ended twice while it read this request") as failure:
            client.send_request(path, Request(verb="run", name="train", wait=waits), notify=said.append)
        listening.shutdown(socket.SHUT_RDWR)
    dying.join()

    assert (len(asked), said, failure.value.exit_code) == (2, [], 14)


def test_a_job_that_was_told_to_wait_outlives_any_number_of_ends_of_the_service(tmp_path):
    path, said = str(tmp_path / "gpus.socket"), []
    lines = [b'{"version":1,"kind":"waiting","message":"in line"}\n', b"", b"", b"", b'{"version":1,"kind":"done"}\n']
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)

        def answer_and_end():
            for line in lines:
                connected, _ = listening.accept()
                with connected:
                    connected.recv(4096)
                    connected.sendall(line)

        ending = threading.Thread(target=answer_and_end, daemon=True)
        ending.start()
        answer = client.send_request(path, Request(verb="run", name="train", wait=True), notify=said.append)
        ending.join()

    assert (answer.kind, said) == ("done", ["in line"])
