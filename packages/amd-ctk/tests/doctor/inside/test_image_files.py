"""What names of files say about the ROCm of an image."""

from __future__ import annotations

import os

import pytest

from amd_ctk.doctor.inside import image_files
from amd_ctk.doctor.inside.reopen import open_own_files


@pytest.fixture
def own_files():
    descriptor = open_own_files()
    yield descriptor
    os.close(descriptor)


def test_targets_are_in_the_names_of_library_files(tmp_path, monkeypatch):
    library = tmp_path / "opt/rocm-6.4.1/lib/rocblas/library"
    library.mkdir(parents=True)
    for name in ("TensileLibrary_gfx90a.dat", "Kernels.so-000-gfx1100.hsaco", "TensileLibrary_gfx11-generic.co", "x"):
        (library / name).touch()
    monkeypatch.setattr(image_files, "LIBRARIES", (f"{tmp_path}/opt/rocm*/lib/rocblas/library",))

    assert image_files._find_targets() == {"gfx90a", "gfx1100", "gfx11-generic"}


def test_the_version_is_the_first_line_of_its_file(tmp_path, monkeypatch, own_files):
    version = tmp_path / "rocm/.info/version"
    version.parent.mkdir(parents=True)
    version.write_text("6.4.1-83\nmore\n")
    monkeypatch.setattr(image_files, "OPT", str(tmp_path))

    assert image_files._read_version(own_files) == "6.4.1-83"


def test_a_pipe_in_place_of_the_version_keeps_nobody_waiting(tmp_path, own_files):
    os.mkfifo(tmp_path / "version")

    assert image_files._read_line(str(tmp_path / "version"), own_files) == ""


def test_names_without_end_give_few_targets(tmp_path, monkeypatch, own_files):
    for number in range(100):
        (tmp_path / f"x_gfx{1000 + number}").touch()
    monkeypatch.setattr(image_files, "LIBRARIES", (str(tmp_path),))

    assert len(image_files.look_at_files(own_files)["targets"]) == 65
