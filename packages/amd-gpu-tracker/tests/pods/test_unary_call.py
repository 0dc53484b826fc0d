"""kubelet is asked over HTTP/2 without a library; whatever else answers ends in bounded time and space."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from amd_gpu_tracker.pods.unary_call import LARGEST_ANSWER, CallFailed, call
from support.kubelet import PREFACE, SETTINGS, answer_with, data, frame

LIST = "/v1.PodResourcesLister/List"


@pytest.fixture
def served(tmp_path):
    """Return a function that serves what a list of bytes says, "" to wait, and the request that came."""
    path, requests, over = str(tmp_path / "kubelet.sock"), [], threading.Event()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve(send):
        def run():
            # A call that is refused before it connects leaves the listener to the end of the test.
            with suppress(OSError):
                connected, _ = listener.accept()
                with connected:
                    requests.append(connected.recv(65536))
                    send(connected, over)

        threading.Thread(target=run, daemon=True).start()
        return path, requests

    yield serve
    over.set()
    listener.close()


def sending(*pieces):
    def send(connected, over):
        for piece in pieces:
            connected.sendall(piece)
        # The client may still confirm what came.
        connected.shutdown(socket.SHUT_WR)
        over.wait()

    return send


def test_a_call_returns_the_message_in_one_piece(served):
    path, requests = served(sending(answer_with(b"x" * 40000)))

    assert call(path, LIST, owner=os.getuid()) == b"x" * 40000

    assert requests[0].startswith(PREFACE)
    assert b"/v1.PodResourcesLister/List" in requests[0]
    assert requests[0].endswith(b"\x00\x00\x05\x00\x01\x00\x00\x00\x01" + bytes(5))


def test_a_node_without_pods_answers_with_an_empty_message(served):
    path, _ = served(sending(answer_with(b"")))

    assert call(path, LIST, owner=os.getuid()) == b""


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (SETTINGS + frame(1, 5, 1, b"\x88"), "the server does not know the method"),
        (SETTINGS + frame(3, 0, 1, bytes(4)), "the server ends the call"),
        (SETTINGS, "the server ends the connection"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "a frame of the server is too long"),
        (b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", "a frame of the server is too long"),
        (data(b"\x00\x00\x00\x00\x09abc", 1), "the message of the server is not whole"),
        (data(b"\x01\x00\x00\x00\x03abc", 1), "the message of the server is not whole"),
    ],
)
def test_a_wrong_answer_is_reported(served, sent, why):
    path, _ = served(sending(sent))

    with pytest.raises(CallFailed) as refused:
        call(path, LIST, owner=os.getuid())

    assert refused.value.message == why


def test_a_server_that_says_nothing_is_left(served):
    path, _ = served(lambda _, over: over.wait())

    with pytest.raises(CallFailed):
        call(path, LIST, owner=os.getuid(), seconds=0.2)


@pytest.mark.parametrize("endless", [data(bytes(16384)), frame(6, 0, 0, bytes(8)) * 1000])
def test_an_endless_answer_is_cut_off(served, endless):
    sent = []

    def send(connected, over):
        while not over.is_set():
            connected.sendall(endless)
            sent.append(len(endless))

    path, _ = served(send)

    with pytest.raises(CallFailed):
        call(path, LIST, owner=os.getuid(), seconds=30)

    # What the socket's buffers hold may come on top.
    assert sum(sent) < LARGEST_ANSWER + (4 << 20)


def test_a_link_or_a_file_or_a_socket_of_another_user_is_not_asked(tmp_path, served):
    path, requests = served(sending(answer_with(b"")))
    link = tmp_path / "link.sock"
    link.symlink_to(path)
    plain = Path(tmp_path / "plain.sock")
    plain.write_text("")

    for each, owner in ((link, os.getuid()), (plain, os.getuid()), (path, os.getuid() + 1)):
        with pytest.raises(CallFailed, match="is not a socket of user"):
            call(str(each), LIST, owner=owner)

    assert requests == []
