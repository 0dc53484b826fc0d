"""What names of files say about the ROCm of an image, and which caches a container filled itself."""

from __future__ import annotations

import os

import pytest

from amd_ctk.doctor.inside import image_files
from amd_ctk.doctor.inside.child import open_own_files
from amd_ctk.doctor.inside.image_files import find_compiled, find_home


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
    for name in ("TensileLibrary_amdgcnspirv.co", "TensileLibrary_gfxabc.dat"):
        (library / name).touch()
    monkeypatch.setattr(image_files, "LIBRARIES", (f"{tmp_path}/opt/rocm*/lib/rocblas/library",))

    assert image_files._find_targets() == {"gfx90a", "gfx1100", "gfx11-generic", "amdgcnspirv"}


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

    found = image_files.read_image_files(own_files, home=str(tmp_path), start=0)
    assert len(found["targets"]) == 65


@pytest.mark.parametrize(("content", "asks"), [(b"\x7fELF lsmod | grep amdgpu\0", True), (b"\x7fELF /sys\0", False)])
def test_a_rocminfo_that_calls_lsmod_has_its_name(tmp_path, monkeypatch, own_files, content, asks):
    (tmp_path / "rocminfo").write_bytes(content)
    monkeypatch.setattr(image_files, "ROCMINFO", (f"{tmp_path}/rocminfo",))

    assert image_files.read_image_files(own_files, home="/", start=0)["asks_lsmod"] is asks


def test_rccl_is_found_in_the_directories_of_rocm(tmp_path, monkeypatch, own_files):
    (tmp_path / "librccl.so.1").touch()
    monkeypatch.setattr(image_files, "RCCL", (f"{tmp_path}/librccl.so*",))

    assert image_files.read_image_files(own_files, home="/", start=0)["has_rccl"] is True


START = 1_800_000_000.0


def make_cache(home, name, made):
    directory = home / name / "3.4.0"
    directory.mkdir(parents=True)
    os.utime(directory, (made, made))


def test_caches_newer_than_the_container_were_compiled_in_it(tmp_path):
    make_cache(tmp_path, ".cache/miopen", START + 60)
    make_cache(tmp_path, ".triton/cache", START - 60)
    (tmp_path / ".cache/comgr").mkdir()

    assert find_compiled(str(tmp_path), START) == [f"{tmp_path}/.cache/miopen"]


def test_a_home_directory_that_is_not_there_has_no_cache(tmp_path):
    assert find_compiled(f"{tmp_path}/nobody", START) == []


@pytest.mark.parametrize(
    ("variables", "home"), [({"HOME": "/home/u1/"}, "/home/u1"), ({"HOME": "/x; reboot"}, "/root"), ({}, "/root")]
)
def test_only_a_plain_path_is_a_home_directory(variables, home):
    assert find_home(variables) == home
