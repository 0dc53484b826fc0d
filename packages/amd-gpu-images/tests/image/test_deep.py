"""Code inside of programs and libraries, in bundles that are compressed or are not."""

from __future__ import annotations

import ctypes
import struct
import zlib

import pytest

from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.content import deep
from amd_gpu_images.content.contents import targets_of, unreadable_in
from amd_gpu_images.reference import parse_reference, read_image


def read(reference, **options):
    return targets_of(read_image(parse_reference(reference), Reading(**options)).layers)


def refusal(reference):
    with pytest.raises(ImageError) as caught:
        read(reference)
    return str(caught.value)


def test_a_library_without_code_takes_the_place_of_one_with_code(layout, reader, make_layer):
    bundle = BUNDLE + b"gfx90a\0"

    layout.add(
        make_layer(("lib/a.so", bundle), ("lib/b.so", BUNDLE + b"gfx942\0")), make_layer(("lib/a.so", b"\x7fELF"))
    )

    assert read(f"oci:{layout.directory}", deep=True) == ["gfx942"]


BUNDLE = (
    b"\x7fELF" + b"x" * 300_000 + b"__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux--" + b"hipv4-amdgcn-amd-amdhsa--"
)


def test_deep_looks_into_programs_and_libraries(layout, tmp_path, reader, make_layer):
    library = BUNDLE + b"gfx90a:sramecc+:xnack-" + b"\0" * 9 + b"hipv4-amdgcn-amd-amdhsa--gfx11-generic\0"
    text = b"amdgcn-amd-amdhsa--gfx1030"
    layout.add(make_layer(("lib/libapp.so", library), ("readme", text), "x_gfx942.co"))
    (tmp_path / "root").mkdir()
    (tmp_path / "root/app").write_bytes(library)

    assert read(f"oci:{layout.directory}") == ["gfx942"]
    assert read(f"oci:{layout.directory}", deep=True) == ["gfx90a", "gfx942", "gfx11-generic"]
    assert read(f"dir:{tmp_path}/root", deep=True) == ["gfx90a", "gfx11-generic"]


@pytest.mark.parametrize(
    "name", [b"hip-spirv64-amd-amdhsa--amdgcnspirv", b"hip-spirv64-amd-amdhsa-unknown-amdgcnspirv"]
)
def test_deep_finds_code_for_every_gpu(name, layout, reader, make_layer):
    layout.add(make_layer(("lib/libapp.so", BUNDLE + b"gfx90a\0" + name + b"\0")))

    assert read(f"oci:{layout.directory}", deep=True) == ["gfx90a", "amdgcnspirv"]


# clang-offload-bundler 19.1.7 --compress: a bundle of gfx90a:xnack-, gfx942 and gfx1100, by zstd.
BUNDLE_OF_CLANG = bytes.fromhex(
    "43434f4202000100dd000000140200009eb1652f134adeed28b52ffd601401dd0500d4075f5f434c414e475f4f46464c4f41445f42554e444c455f"
    "5f04004001003600686f73742d7838365f36342d756e6b6e6f776e2d6c696e75782d2d801326697076342d616d6467636e6873612d2d6766783930"
    "613a786e61636b2dc01f34320002140000002031313030007f454c4620636f6465206f66203432313130301a0002098730c7cd05800271833df80016"
    "504a00372b88938a870e2008255ca5060ae41d848e9d5915eb8030c81285ecee330c807b26597087031803"
)


def bundle_of_zlib(version, target):
    content = zlib.compress(b"__CLANG_OFFLOAD_BUNDLE__hipv4-amdgcn-amd-amdhsa--" + target + bytes(5000))
    sizes = {1: struct.pack("<I", 5000), 2: struct.pack("<II", 5000, 5000), 3: struct.pack("<QQ", 5000, 5000)}
    return b"CCOB" + struct.pack("<HH", version, 0) + sizes[version] + bytes(8) + content


@pytest.fixture
def libzstd():
    """Skip a test where there is no libzstd."""
    try:
        return ctypes.CDLL("libzstd.so.1")
    except OSError as error:
        pytest.skip(f"libzstd is not installed: {error}")


@pytest.mark.parametrize("at", [0, 4096, 2**17, 2**18 - 100, 2**18 - 10, 2**18 + 5])
def test_compressed_bundles_are_read_wherever_they_stand(at, layout, reader, make_layer, libzstd):
    library = b"\x7fELF" + bytes(at) + BUNDLE_OF_CLANG + bytes(300_000) + bundle_of_zlib(1, b"gfx1030\0")
    layout.add(make_layer(("lib.so", library)))

    assert read(f"oci:{layout.directory}", deep=True) == ["gfx90a", "gfx942", "gfx1030", "gfx1100"]
    assert read(f"oci:{layout.directory}") == []


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_compressed_bundles_is_read(version, layout, reader, make_layer):
    layout.add(make_layer(("lib.so", b"\x7fELF" + bundle_of_zlib(version, b"gfx906\0"))))

    assert read(f"oci:{layout.directory}", deep=True) == ["gfx906"]


@pytest.mark.parametrize(
    "bundle",
    [
        bundle_of_zlib(2, b"gfx906\0")[:24] + b"x" * 500,
        b"CCOB" + struct.pack("<HH", 2, 5) + bytes(500),
        b"CCOB" + struct.pack("<HH", 4, 1) + bytes(500),
        b"CCOB" + struct.pack("<HH", 9, 9) + bytes(500),
        BUNDLE_OF_CLANG[:30],
    ],
    ids=["damaged", "unknown method", "unknown version", "last version and method", "cut off"],
)
def test_a_bundle_that_cannot_be_read_is_named(bundle, layout, reader, make_layer):
    layout.add(make_layer(("lib/a.so", b"\x7fELF" + bundle), ("b_gfx90a.co", b"")))

    layers = read_image(parse_reference(f"oci:{layout.directory}"), Reading(deep=True)).layers

    assert (targets_of(layers), unreadable_in(layers)) == (["gfx90a"], ["lib/a.so"])


@pytest.mark.parametrize(("version", "method"), [(0, 0), (10, 1), (2, 10)])
def test_the_letters_of_the_magic_are_no_bundle(version, method, layout, reader, make_layer):
    by_chance = b"CCOB" + struct.pack("<HH", version, method) + bytes(95)
    layout.add(make_layer(("a.so", b"\x7fELF and the text CCOB in it"), ("b.so", b"\x7fELF" + by_chance)))

    assert unreadable_in(read_image(parse_reference(f"oci:{layout.directory}"), Reading(deep=True)).layers) == []


def test_bundles_without_end_are_refused(layout, reader, make_layer, monkeypatch):
    monkeypatch.setattr(deep, "MOST_BUNDLES", 10)
    layout.add(make_layer(*((f"{number}.so", b"\x7fELF" + b"CCOB" * 4) for number in range(3))))

    with pytest.raises(ImageError) as caught:
        read(f"oci:{layout.directory}", deep=True)
    assert str(caught.value) == "a layer has more than 10 compressed bundles of code"
