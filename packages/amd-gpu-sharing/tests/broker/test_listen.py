"""A broker makes its socket where none listens, and takes no socket away from another one."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import ExitStack

import pytest

from amd_gpu_sharing.broker.serve import BACKLOG, EVERYBODY, listen
from amdgpu_discovery.errors import FileError

LISTENS = "the socket {path} cannot be made: another service listens there (stop that one first)"
NO_SOCKET = "the socket {path} cannot be made: a file that is not a socket is there (remove it, or name another path)"


def accept(listener, path):
    """Connect, and have that accepted by one who listens; BlockingIOError where another listens at the path."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        listener.accept()[0].close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "run" / "broker.sock")


def test_all_users_may_connect_from_the_first_moment(path):
    with listen(path, EVERYBODY):
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o666


def test_a_socket_that_a_killed_broker_left_is_replaced(path):
    listen(path, EVERYBODY).close()

    with listen(path, EVERYBODY) as living:
        accept(living, path)


def test_a_broker_that_listens_keeps_its_socket(path):
    with listen(path, EVERYBODY) as living:
        with pytest.raises(FileError) as refusal:
            listen(path, EVERYBODY)

        assert str(refusal.value) == LISTENS.format(path=path)
        accept(living, path)


def test_where_it_cannot_be_told_whether_a_broker_listens_nothing_is_taken_away(path):
    os.makedirs(os.path.dirname(path))
    # What listens there has another type of socket, so that connecting fails, and not because nothing listens.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(FileError) as refusal:
            listen(path, EVERYBODY)

        assert str(refusal.value) == f"the socket {path} cannot be made: Protocol wrong type for socket"
        assert os.path.exists(path)


def test_a_file_in_the_way_is_left_alone(path):
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("notes")

    with pytest.raises(FileError) as refusal:
        listen(path, EVERYBODY)

    assert str(refusal.value) == NO_SOCKET.format(path=path)
    with open(path, encoding="utf-8") as file:
        assert file.read() == "notes"


def test_a_broker_whose_queue_is_full_keeps_its_socket(path):
    with listen(path, EVERYBODY), ExitStack() as clients:
        for _ in range(BACKLOG + 1):
            client = clients.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            client.connect(path)
        with pytest.raises(FileError) as refusal:
            listen(path, EVERYBODY)

    assert str(refusal.value) == LISTENS.format(path=path)


@pytest.mark.parametrize("target", ["elsewhere", "nowhere"])
def test_a_symbolic_link_in_the_way_is_left_alone(path, tmp_path, target):
    os.makedirs(os.path.dirname(path))
    listen(str(tmp_path / "elsewhere"), EVERYBODY).close()
    os.symlink(tmp_path / target, path)

    with pytest.raises(FileError) as refusal:
        listen(path, EVERYBODY)

    assert str(refusal.value) == NO_SOCKET.format(path=path)
    assert os.path.islink(path)
