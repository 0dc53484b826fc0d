"""What lies in the directories of CDI specs costs no more than specs do."""

from __future__ import annotations

import json
import os

import pytest

from amd_ctk.cdi.engine_devices import read_spec_files, resolve_devices
from amdgpu_discovery.host import Host

SPEC = {
    "cdiVersion": "0.5.0",
    "kind": "amd.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/kfd"}]}}],
}


@pytest.fixture
def directory(tmp_path):
    directory = tmp_path / "etc/cdi"
    directory.mkdir(parents=True)
    (directory / "amd.json").write_text(json.dumps(SPEC))
    return directory


def read(directory):
    (files,) = read_spec_files(Host(directory.parents[1]), ["/etc/cdi"])
    return {os.path.basename(file.path): file.problem or file.names for file in files}


def test_a_file_that_is_too_large_is_left_out_unread(directory):
    (directory / "large.json").touch()
    os.truncate(directory / "large.json", 100 << 30)

    assert read(directory) == {"amd.json": ("amd.com/gpu=0",), "large.json": "it is too large"}


def test_a_pipe_is_no_spec(directory):
    os.mkfifo(directory / "pipe.yaml")

    assert read(directory) == {"amd.json": ("amd.com/gpu=0",), "pipe.yaml": "it is not a plain file"}


def test_of_more_files_than_a_host_has_the_first_are_read(directory):
    for number in range(300):
        (directory / f"x{number}.json").write_text("{}")

    found = read(directory)

    assert len(found) == 257
    assert found["amd.json"] == ("amd.com/gpu=0",)
    assert found["cdi"] == "it has 301 specs; at most 256 are read"


def test_a_directory_that_cannot_be_listed_is_named(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/cdi").symlink_to("cdi")

    files = read_spec_files(Host(tmp_path))

    assert [[(file.path, file.problem) for file in found] for found in files] == [
        [(f"{tmp_path}/etc/cdi", "it is a symbolic link")],
        [],
    ]
    assert resolve_devices(files) == []
