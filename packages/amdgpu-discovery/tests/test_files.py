"""A file is replaced whole or not at all, whatever goes wrong."""

from __future__ import annotations

import os
import resource
import signal
import socket
import stat
from contextlib import contextmanager

import pytest

from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import (
    append_to_file,
    make_directories,
    put_in_place,
    read_file,
    read_to_end,
    remove_file,
    replace_file,
    write_beside,
    write_new_file,
)


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b"old")
    path.chmod(0o640)
    return path


def names(directory):
    return sorted(entry.name for entry in directory.iterdir())


@pytest.mark.parametrize("durable", [False, True])
def test_content_is_replaced_and_nothing_else(target, durable):
    replace_file(str(target), b"new", durable=durable)

    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert names(target.parent) == ["config.json"]


def test_a_new_file_gets_the_mode_it_is_given(tmp_path):
    replace_file(str(tmp_path / "secret"), b"x", mode=0o600)
    replace_file(str(tmp_path / "public"), b"x")

    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "public").stat().st_mode) == 0o644


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(target):
    os.chown(target, 1234, 2345)

    replace_file(str(target), b"new")

    assert (target.stat().st_uid, target.stat().st_gid) == (1234, 2345)


def test_a_removed_file_is_gone_and_nothing_else(target):
    (target.parent / "other").touch()

    remove_file(str(target))

    assert names(target.parent) == ["other"]
    with pytest.raises(FileNotFoundError):
        remove_file(str(target))


def test_a_symbolic_link_stays_and_its_target_changes(target):
    link = target.parent / "link"
    link.symlink_to("config.json")

    replace_file(str(link), b"new")

    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_the_file_of_a_killed_process_with_the_same_number_is_replaced(target):
    leftover = target.parent / f"config.json.{os.getpid()}.tmp"
    leftover.write_bytes(b"half")

    replace_file(str(target), b"new")

    assert names(target.parent) == ["config.json"]


def test_a_planted_link_is_not_followed(target, tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / f"config.json.{os.getpid()}.tmp").symlink_to(victim)

    replace_file(str(target), b"new")

    assert victim.read_bytes() == b"precious"


def test_a_new_file_takes_the_place_of_a_link_and_leaves_its_target(target):
    link = target.parent / "link"
    link.symlink_to("config.json")

    write_new_file(str(link), b"new", mode=0o600)

    assert not link.is_symlink()
    assert (link.read_bytes(), stat.S_IMODE(link.stat().st_mode)) == (b"new", 0o600)
    assert (target.read_bytes(), names(target.parent)) == (b"old", ["config.json", "link"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_new_file_has_nothing_of_the_one_that_it_replaces(target):
    os.chown(target, 1234, 2345)
    target.chmod(0o666)

    write_new_file(str(target), b"new", mode=0o600)

    found = target.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, os.getegid(), 0o600)


def test_a_new_file_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(FileError) as failure:
        write_new_file(f"{tmp_path}/nowhere/file", b"x", mode=0o600)

    assert str(failure.value) == f"{tmp_path}/nowhere/file cannot be written: it does not exist"


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(target):
    with file_size_limit(10), pytest.raises(FileError, match=f"{target} cannot be written: "):
        replace_file(str(target), b"x" * 1000)

    assert target.read_bytes() == b"old"
    assert names(target.parent) == ["config.json"]


def test_a_missing_directory_is_named(tmp_path):
    path = tmp_path / "nowhere" / "file"

    with pytest.raises(FileError) as failure:
        replace_file(str(path), b"x")

    assert str(failure.value) == f"{path} cannot be written: it does not exist"


def test_a_directory_in_the_files_place_is_left_alone(tmp_path):
    (tmp_path / "file").mkdir()

    with pytest.raises(FileError, match="cannot be written: it is a directory"):
        replace_file(str(tmp_path / "file"), b"x")

    assert names(tmp_path) == ["file"]


def test_writing_beside_changes_nothing_until_it_is_put_in_place(target):
    temporary = write_beside(str(target), b"new")

    assert target.read_bytes() == b"old"
    assert stat.S_IMODE(os.stat(temporary).st_mode) == 0o640
    put_in_place(temporary, str(target))
    assert target.read_bytes() == b"new"


@contextmanager
def file_size_limit(size):
    """Let no file grow beyond some bytes, as a full disk does; the kernel's signal for that is ignored.

    In the test's body alone: pytest's own output may go to a file.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_of_any_size_is_read_whole(tmp_path):
    for size in (0, 1, 65535, 65536, 65537, 131072, 200000):
        content = os.urandom(size)
        (tmp_path / "file").write_bytes(content)

        assert read_file(str(tmp_path / "file")) == content


def test_appended_bytes_follow_the_earlier_ones_and_a_new_file_is_for_all_to_read(tmp_path):
    path = tmp_path / "log"
    before = os.umask(0o022)
    try:
        append_to_file(str(path), b"one\n")
        append_to_file(str(path), b"two\n")
    finally:
        os.umask(before)

    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o755), (0o022, 0o755), (0o077, 0o700)])
def test_directories_are_never_open_for_others_to_write(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        make_directories(f"{tmp_path}/a/b/c/")
        make_directories(f"{tmp_path}/a/b/c")
    finally:
        os.umask(before)

    assert [(tmp_path / path).stat().st_mode & 0o777 for path in ("a", "a/b", "a/b/c")] == [mode] * 3


def test_a_directory_is_not_made_where_a_file_is(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(FileExistsError):
        make_directories(f"{tmp_path}/file")
    with pytest.raises(NotADirectoryError):
        make_directories(f"{tmp_path}/file/below")


@pytest.mark.parametrize("size", [1, 10, 65536, 200_000])
def test_a_file_is_read_as_far_as_the_limit(target, size):
    target.write_bytes(b"x" * size)

    assert read_file(str(target), largest=size) == b"x" * size
    with pytest.raises(OSError, match="it is too large"):
        read_file(str(target), largest=size - 1)


@pytest.mark.timeout(10)
def test_a_file_without_end_is_left_at_the_limit():
    with pytest.raises(OSError, match="it is too large"):
        read_file("/dev/zero", largest=1000)


def test_content_that_comes_in_pieces_is_read_to_its_end():
    reader, writer = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with reader, writer:
        writer.send(b"one ")
        writer.send(b"two")
        writer.shutdown(socket.SHUT_WR)

        assert read_to_end(reader.fileno(), 10) == b"one two"


def test_a_file_without_end_is_refused():
    with pytest.raises(OSError, match="it is too large"):
        read_file("/dev/zero")


def test_leftovers_of_killed_processes_beside_a_file_are_removed(tmp_path):
    names = ("state.4194305.tmp", "state.4194306.tmp", "state.1.tmp", "state.x.tmp")
    of_the_dead, _, alive, other = (tmp_path / name for name in names)
    for name in names:
        (tmp_path / name).write_text("half")
    for path in (of_the_dead, alive, other):
        os.utime(path, (1_000_000_000, 1_000_000_000))

    replace_file(str(tmp_path / "state"), b"whole", durable=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "state",
        "state.1.tmp",
        "state.4194306.tmp",
        "state.x.tmp",
    ]
