"""Files that somebody else may have written are read within limits."""

from __future__ import annotations

import os

import pytest

from amdgpu_discovery.untrusted.plain_files import mount_of, read_own_file, read_plain_file


@pytest.mark.parametrize("size", [0, 1, 10])
def test_a_plain_file_is_read_as_far_as_the_limit(tmp_path, size):
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)

    assert read_plain_file(str(path), largest=10) == (b"x" * size, path.stat().st_mtime)
    with pytest.raises(OSError, match="it is too large"):
        read_plain_file(str(path), largest=size - 1)


def test_a_plain_file_that_grows_while_it_is_read_is_too_large(tmp_path, monkeypatch):
    def read(descriptor, most):
        asked.append(most)
        return b"x" * most

    asked = []
    path = tmp_path / "file"
    path.write_bytes(b"x")
    monkeypatch.setattr("posix.read", read)

    with pytest.raises(OSError, match="it is too large"):
        read_plain_file(str(path), largest=100)

    assert sum(asked) == 101


@pytest.mark.parametrize(
    ("make", "owner", "reason"),
    [
        (os.mkfifo, None, "it is not a plain file"),
        (os.mkdir, None, "it is not a plain file"),
        (lambda path: os.symlink("/dev/zero", path), None, "it is not a plain file"),
        (lambda path: os.symlink("/etc/hostname", path), os.geteuid(), "it is not a plain file"),
        (lambda path: open(path, "wb").close(), os.geteuid() + 1, "it belongs to another user"),
    ],
)
def test_a_file_that_is_not_plain_or_not_its_owners_is_not_read(tmp_path, make, owner, reason):
    path = str(tmp_path / "file")
    make(path)

    with pytest.raises(OSError, match=reason):
        read_plain_file(path, owner=owner)


def test_a_plain_file_is_found_from_an_open_directory(tmp_path):
    (tmp_path / "file").write_bytes(b"x")
    directory = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        assert read_plain_file("file", directory=directory, owner=os.geteuid())[0] == b"x"
    finally:
        os.close(directory)


@pytest.mark.parametrize(("told", "mount"), [(b"pos:\t0\nflags:\t02\nmnt_id:\t31\nino:\t5\n", 31), (b"pos:\t0\n", 0)])
def test_the_mount_of_a_descriptor_is_as_the_kernel_tells_it(monkeypatch, told, mount):
    monkeypatch.setattr("posix.read", lambda *_: told)

    assert mount_of(0) == mount


def test_a_file_of_a_directory_of_ones_own_is_read_as_far_as_the_limit(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)

    assert read_own_file(str(path), largest=10) == b"x" * 10
    with pytest.raises(OSError, match="it is too large"):
        read_own_file(str(path), largest=9)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_a_file_that_is_not_plain_in_a_directory_of_ones_own_is_not_read(tmp_path, make):
    path = str(tmp_path / "file")
    make(path)

    with pytest.raises(OSError, match="it is not a plain file"):
        read_own_file(path)
