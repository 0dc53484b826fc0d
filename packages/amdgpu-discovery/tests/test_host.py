"""The seam: paths of a machine, real or simulated."""

from __future__ import annotations

import os

import pytest

from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host, host_from_environment


def test_paths_of_this_machine_stand_as_they_are():
    host = Host("/")

    assert host.path("/sys/class/drm") == "/sys/class/drm"
    assert host.is_this_machine


def test_paths_of_a_simulated_host_lie_below_its_root(tmp_path):
    host = Host(tmp_path)

    assert host.path("/sys/class/drm") == f"{tmp_path}/sys/class/drm"
    assert not host.is_this_machine


def test_a_missing_file_reads_as_nothing(tmp_path):
    host = Host(tmp_path)

    assert host.read_attribute("/sys/none") == ""
    assert host.names("/sys/none") == []
    assert host.link("/sys/none") == ""
    assert host.stat("/sys/none") is None
    with pytest.raises(FileNotFoundError):
        host.read("/sys/none")


def test_a_pipe_without_a_writer_reads_as_nothing_also_among_files(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("text\n")
    host = Host(tmp_path)

    assert host.read("/pipe") == b""
    assert host.read_attributes(["/pipe", "/file"]) == ["", "text"]


def test_a_file_of_any_size_is_read_whole(tmp_path):
    (tmp_path / "big").write_bytes(b"x" * 200_000)
    (tmp_path / "exact").write_bytes(b"x" * 65536)

    assert len(Host(tmp_path).read("/big")) == 200_000
    assert len(Host(tmp_path).read("/exact")) == 65536


def test_a_pipe_that_nobody_writes_to_is_empty(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    assert Host(tmp_path).read("/pipe") == b""


def test_the_environment_chooses_the_host(tmp_path):
    assert host_from_environment({}).root == "/"
    assert host_from_environment({"AMD_CTK_HOST_ROOT": ""}).root == "/"
    assert host_from_environment({"AMD_CTK_HOST_ROOT": str(tmp_path)}).root == str(tmp_path)


def test_a_root_that_is_no_directory_is_refused(tmp_path):
    with pytest.raises(ToolkitError) as refusal:
        host_from_environment({"AMD_CTK_HOST_ROOT": f"{tmp_path}/none"})

    assert refusal.value.message == f"AMD_CTK_HOST_ROOT={tmp_path}/none is not a directory"
