"""What names of files say about the ROCm of an image."""

from __future__ import annotations

from amd_ctk.doctor.inside import image_files


def test_targets_are_in_the_names_of_library_files(tmp_path, monkeypatch):
    library = tmp_path / "opt/rocm-6.4.1/lib/rocblas/library"
    library.mkdir(parents=True)
    for name in ("TensileLibrary_gfx90a.dat", "Kernels.so-000-gfx1100.hsaco", "TensileLibrary_gfx11-generic.co", "x"):
        (library / name).touch()
    monkeypatch.setattr(image_files, "LIBRARIES", (f"{tmp_path}/opt/rocm*/lib/rocblas/library",))

    assert image_files._find_targets() == {"gfx90a", "gfx1100", "gfx11-generic"}


def test_the_version_is_the_first_line_of_its_file(tmp_path, monkeypatch):
    version = tmp_path / "rocm/.info/version"
    version.parent.mkdir(parents=True)
    version.write_text("6.4.1-83\nmore\n")
    monkeypatch.setattr(image_files, "OPT", str(tmp_path))

    assert image_files._read_version() == "6.4.1-83"


def test_a_pipe_in_place_of_the_version_keeps_nobody_waiting(tmp_path):
    import os

    os.mkfifo(tmp_path / "version")

    assert image_files._read_line(str(tmp_path / "version")) == ""
