"""What was looked at is what is opened."""

from __future__ import annotations

import os

import pytest

from amd_ctk.doctor.inside.reopen import held, open_own_files, reopen


@pytest.fixture
def own_files():
    descriptor = open_own_files()
    yield descriptor
    os.close(descriptor)


def test_a_file_is_opened_that_its_path_leads_to_no_longer(tmp_path, own_files):
    path = tmp_path / "file"
    path.write_text("first")

    with held(str(path)) as handle:
        path.rename(tmp_path / "other")
        path.write_text("second")
        descriptor = reopen(handle, os.O_RDONLY, own_files)

    with open(descriptor) as file:
        assert file.read() == "first"


def test_a_link_is_followed(tmp_path):
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/file").touch()
    (tmp_path / "link").symlink_to("directory")

    with held(f"{tmp_path}/link/file") as handle:
        assert os.path.samestat(os.fstat(handle), os.stat(tmp_path / "directory/file"))


def test_nothing_stays_open_where_nothing_is_found(tmp_path):
    before = len(os.listdir("/proc/self/fd"))

    with pytest.raises(FileNotFoundError), held(f"{tmp_path}/missing/file"):
        pass

    assert len(os.listdir("/proc/self/fd")) == before
