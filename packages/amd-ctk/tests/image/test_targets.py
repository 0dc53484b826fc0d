"""For which targets an image has code, as its layers say."""

from __future__ import annotations

import bz2
import contextlib
import ctypes
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_ctk.image import bounds, deep, zstd
from amd_ctk.image.contents import LayerContents, targets_of, unreadable_in
from amd_ctk.image.errors import ImageError
from amd_ctk.image.layers import read_layer
from amd_ctk.image.names import clean, targets_in
from amd_ctk.image.progress import Progress
from amd_ctk.image.reference import parse_reference, read_image

LIBRARY = "opt/rocm/lib/rocblas/library"


def read(reference, **options):
    return targets_of(read_image(parse_reference(reference), Progress(), **options).layers)


def refusal(reference):
    with pytest.raises(ImageError) as caught:
        read(reference)
    return str(caught.value)


@pytest.mark.parametrize(
    ("path", "targets"),
    [
        ("library/TensileLibrary_Type_HH_Contraction_gfx90a.co", ["gfx90a"]),
        ("library/Kernels.so-000-gfx90a-xnack-.hsaco", ["gfx90a"]),
        ("library/TensileLibrary_lazy_gfx1100.dat", ["gfx1100"]),
        ("share/miopen/db/gfx90a68.kdb", ["gfx90a"]),
        ("share/miopen/db/gfx103036.kdb", ["gfx1030"]),
        ("share/miopen/db/gfx942130.kdb", ["gfx942"]),
        ("library/extop_gfx9-4-generic.co", ["gfx9-4-generic"]),
        ("torch/lib/aotriton.images/amd-gfx942/flash/attn_fwd/F__x.aks2", ["gfx942"]),
        ("include/gfx90a.h", []),
        ("share/miopen/db/gfx90a68.HIP.fdb.txt", []),
        ("library/gfxfoo.co", []),
        ("library/kernels.co", []),
    ],
)
def test_a_file_name_tells_the_targets_of_its_code(path, targets):
    assert targets_in(path) == targets


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_layers_of_every_compression_are_read(compress, layout, reader, make_layer):
    layout.add(make_layer(f"./{LIBRARY}/a_gfx942.co", "etc/gfx1100"), make_layer("x_gfx90a.hsaco"), compress=compress)

    assert read(f"oci:{layout.directory}") == ["gfx90a", "gfx942"]


def compress_with_zstd(content, frames=1):
    try:
        library = ctypes.CDLL("libzstd.so.1")
    except OSError as error:
        pytest.skip(f"libzstd is not installed: {error}")
    out = ctypes.create_string_buffer(len(content) + 1024)
    size = library.ZSTD_compress(out, len(out), content, len(content), 3)
    return out.raw[:size] * frames


def test_zstd_is_read(layout, reader, make_layer):
    layout.add(make_layer("x_gfx90a.co", ("big", bytes(3_000_000)), "x_gfx942.co"), compress=compress_with_zstd)

    assert read(f"oci:{layout.directory}") == ["gfx90a", "gfx942"]


@pytest.mark.parametrize("damage", [lambda layer: layer[:-20], lambda layer: layer[:9] + b"\xff" * 99])
def test_zstd_that_is_damaged_is_one_sentence(damage, layout, reader, make_layer):
    layout.add(make_layer("x", ("y", os.urandom(5000))), compress=lambda layer: damage(compress_with_zstd(layer)))

    assert refusal(f"oci:{layout.directory}").startswith("a layer is damaged: ")


def test_a_machine_without_libzstd_says_what_to_do(layout, reader, make_layer, monkeypatch):
    monkeypatch.setattr(zstd, "LIBRARY", "libzstd.so.none")
    layout.add(make_layer("x"), compress=lambda _: bytes.fromhex("28b52ffd0458") + bytes(64))

    assert refusal(f"oci:{layout.directory}") == (
        "a layer is compressed with zstd, and this machine has no libzstd"
        " (install it, or copy the image with 'skopeo copy --dest-compress-format=gzip')"
    )


def test_a_layer_deletes_files_and_directories_of_those_below_it(layout, reader, make_layer):
    below = make_layer("a/x_gfx900.co", "a/x_gfx906.co", "b/c/x_gfx908.co", "d/x_gfx90a.co", "e/x_gfx942.co")
    above = make_layer("a/.wh.x_gfx900.co", "b/.wh.c", "d/.wh..wh..opq", "d/x_gfx1100.co")

    layout.add(below, above, make_layer("b/c/x_gfx1030.co"))

    assert read(f"oci:{layout.directory}") == ["gfx906", "gfx942", "gfx1030", "gfx1100"]


def test_a_layer_deletes_nothing_of_its_own(layout, reader, make_layer):
    layout.add(make_layer("a/x_gfx900.co", "a/.wh..wh..opq", ".wh.a"))

    assert read(f"oci:{layout.directory}") == ["gfx900"]


@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
@pytest.mark.parametrize("name", ["opt/rocm", "./opt/rocm", "/opt/rocm"])
def test_what_stands_in_the_place_of_a_directory_hides_what_it_had(kind, name, layout, reader, make_layer):
    below = make_layer("opt/rocm/lib/x_gfx900.co", "opt/rocm-6/x_gfx906.co")
    above = tarfile.TarInfo(name)
    above.type, above.linkname = kind, "rocm-6"

    layout.add(below, make_layer(above), make_layer("opt/rocm-6/x_gfx908.co"))

    assert read(f"oci:{layout.directory}") == ["gfx906", "gfx908"]


def test_what_has_a_long_name_hides_a_directory_too(layout, reader, make_layer):
    directory = "/".join(["d" * 60] * 4)

    layout.add(make_layer(f"{directory}/x_gfx900.co", "x_gfx90a.co"), make_layer(directory))

    assert read(f"oci:{layout.directory}") == ["gfx90a"]


def test_a_file_is_hidden_by_a_link_or_a_directory_of_its_name(layout, reader, make_layer):
    link, directory, same = (tarfile.TarInfo(f"x_{target}.co") for target in ("gfx900", "gfx906", "gfx908"))
    link.type, link.linkname, directory.type = tarfile.SYMTYPE, "y", tarfile.DIRTYPE

    layout.add(make_layer("x_gfx900.co", "x_gfx906.co", "x_gfx908.co"), make_layer(link, directory, same))

    assert read(f"oci:{layout.directory}") == ["gfx908"]


def test_a_directory_that_is_there_again_hides_nothing(layout, reader, make_layer):
    directory = tarfile.TarInfo("opt")
    directory.type = tarfile.DIRTYPE

    layout.add(make_layer("opt/x_gfx900.co"), make_layer(directory, "opt/y"))

    assert read(f"oci:{layout.directory}") == ["gfx900"]


def test_a_library_without_code_takes_the_place_of_one_with_code(layout, reader, make_layer):
    bundle = BUNDLE + b"gfx90a\0"

    layout.add(
        make_layer(("lib/a.so", bundle), ("lib/b.so", BUNDLE + b"gfx942\0")), make_layer(("lib/a.so", b"\x7fELF"))
    )

    assert read(f"oci:{layout.directory}", deep=True) == ["gfx942"]


def test_links_and_directories_are_no_code_and_hard_links_are(layout, reader, make_layer):
    link, hard, directory = (tarfile.TarInfo(f"x_{target}.co") for target in ("gfx900", "gfx906", "gfx908"))
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    hard.type, hard.linkname = tarfile.LNKTYPE, "y"
    directory.type = tarfile.DIRTYPE

    layout.add(make_layer("y", link, hard, directory))

    assert read(f"oci:{layout.directory}") == ["gfx906"]


@pytest.mark.parametrize("name", ["../../x_gfx900.co", "a/../../x_gfx900.co", "a/" * 3000 + "x_gfx900.co"])
def test_a_name_that_leads_out_of_the_image_is_no_file_of_it(name, layout, reader, make_layer):
    layout.add(make_layer(name, "/abs/x_gfx942.co"))

    assert read(f"oci:{layout.directory}") == ["gfx942"]


def test_a_truncated_layer_is_one_sentence(layout, reader, make_layer):
    layout.add(make_layer(("x_gfx900.co", b"x" * 4096)), compress=lambda layer: gzip.compress(layer)[:-30])

    assert refusal(f"oci:{layout.directory}").startswith("a layer is damaged: ")


# What engines accept, and umoci writes: no zeros at the end, not even those that fill the last block.
ENDS = {"with half of its last zeros": 700, "without the zeros at its end": 0, "without those of its last block": -12}


@pytest.mark.parametrize("kept", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_archive_may_lack_zeros_at_its_end(kept, compress, layout, reader, make_layer):
    whole = make_layer(("x_gfx900.co", b"x" * 500))

    layout.add(whole[: 1024 + kept], compress=compress)

    assert read(f"oci:{layout.directory}") == ["gfx900"]


@pytest.mark.parametrize(
    ("kept", "words"),
    [(1024 - 13, "it ends within a file"), (600, "it ends within a file"), (300, "it ends within a header")],
)
@pytest.mark.parametrize("deep", [False, True])
def test_an_archive_that_lacks_anything_else_is_damaged(kept, words, deep, layout, reader, make_layer):
    layout.add(make_layer(("x_gfx900.co", b"\x7fELF" + b"x" * 496))[:kept], compress=bytes)

    with pytest.raises(ImageError) as caught:
        read(f"oci:{layout.directory}", deep=deep)
    assert str(caught.value) == f"a layer is damaged: {words}"


def test_a_large_file_that_is_cut_off_is_damaged(layout, reader, make_layer):
    layout.add(make_layer(("a", bytes(3_000_000)), "x_gfx900.co")[:2_000_000], compress=bytes)

    assert refusal(f"oci:{layout.directory}") == "a layer is damaged: it ends within a file"


@pytest.mark.parametrize(
    "field", [b"12x45678901\0", b"-0000000001\0", b"\xff" * 12, b"0_000000001\0", b"0000000000\xb2\0"], ids=repr
)
def test_a_size_that_is_none_is_damage(field, layout, reader):
    header = bytearray(tarfile.TarInfo("x_gfx900.co").tobuf(tarfile.GNU_FORMAT))
    header[124:136] = field
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))

    layout.add(bytes(header) + bytes(1024))

    assert refusal(f"oci:{layout.directory}").startswith("a layer is damaged: a ")


@pytest.mark.parametrize(
    "records", [b"9 path=x", b"99 path=x\n", b"path=x\n", b"0 path=x\n", b"12 size=-100\n", b"17 size=9999999x\n"]
)
def test_records_of_pax_that_are_none_are_damage(records, layout, reader):
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, len(records)
    file = tarfile.TarInfo("x_gfx900.co").tobuf()
    layout.add(header.tobuf() + records.ljust(512, b"\0") + file + bytes(1024))

    assert refusal(f"oci:{layout.directory}").startswith("a layer is damaged: a ")


def test_the_end_of_an_archive_is_its_end(layout, reader, make_layer):
    layout.add(make_layer("x_gfx900.co") + make_layer("x_gfx906.co"))

    assert read(f"oci:{layout.directory}") == ["gfx900"]


def test_a_layer_of_many_gzip_members_is_read(layout, reader, make_layer):
    layer = make_layer("x_gfx900.co", ("big", os.urandom(100_000)), "x_gfx906.co")

    layout.add(b"".join(gzip.compress(layer[at : at + 777]) for at in range(0, len(layer), 777)), compress=bytes)

    assert read(f"oci:{layout.directory}") == ["gfx900", "gfx906"]


def test_xz_that_asks_for_much_memory_is_refused(layout, reader, make_layer):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 256 * 1024 * 1024}]

    layout.add(make_layer("x_gfx900.co"), compress=lambda layer: lzma.compress(layer, filters=filters))

    assert refusal(f"oci:{layout.directory}") == "a layer is damaged: Memory usage limit exceeded"


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=200).filter(
    lambda name: ".wh." not in name
)
MEMBERS = st.tuples(NAMES, st.sampled_from([b"0", b"1", b"2", b"5", b"7", b"6"]), st.integers(0, 3000))


@given(st.lists(MEMBERS, max_size=8), st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_an_archive_is_read_as_tarfile_reads_it(members, form):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as archive:
        for name, kind, size in members:
            member = tarfile.TarInfo(f"{name}_gfx900.co")
            member.type, member.size = kind, size if kind in (b"0", b"7") else 0
            with contextlib.suppress(ValueError):  # ustar has no room for some names
                archive.addfile(member, io.BytesIO(bytes(size)))
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as archive:
        expected = {clean(member.name) for member in archive if member.isreg() or member.islnk()}

    layers = [read_layer(io.BytesIO(buffer.getvalue()), Progress(), deep=deep) for deep in (False, True)]

    assert [layer.targets_by_path.keys() for layer in layers] == [expected - {""}] * 2


def test_a_layer_that_is_no_archive_is_one_sentence(layout, reader):
    layout.add(b"", compress=lambda _: b"hello " * 200)

    assert refusal(f"oci:{layout.directory}").startswith("a layer is damaged: ")


def test_a_name_that_claims_to_be_a_gigabyte_is_not_read(layout, reader):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2**30
    layout.add(b"", compress=lambda _: header.tobuf(tarfile.GNU_FORMAT) + bytes(10240))

    assert refusal(f"oci:{layout.directory}").startswith("a layer is damaged: ")


def test_long_work_is_shown_on_a_terminal_and_nowhere_else(layout, monkeypatch, capsys):
    zeros = tarfile.TarInfo("zeros")
    zeros.size = 2**30
    layout.add(b"", compress=lambda _: zeros.tobuf())
    (blob,) = [path for path in layout.directory.glob("blobs/sha256/*") if path.stat().st_size == 512]
    with blob.open("ab") as file:
        # A hole, which takes no room on the disk and is skipped.
        file.truncate(512 + zeros.size + 1024)

    assert read(f"oci:{layout.directory}") == []
    assert capsys.readouterr().err == ""

    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert read(f"oci:{layout.directory}") == []
    assert capsys.readouterr().err.startswith(f"\r{'reading layer 1 of 1: 1 names, 1.0 GiB':<78}")


def test_names_without_end_are_refused(layout, reader, monkeypatch, make_layer):
    monkeypatch.setattr(bounds, "MOST_NAMES", 100)
    layout.add(make_layer(*map(str, range(60))), make_layer(*map(str, range(60))))

    assert refusal(f"oci:{layout.directory}") == "it has more than 100 files, more than any image needs"


def test_a_file_that_claims_to_be_larger_than_any_disk_is_refused(layout, reader):
    member = tarfile.TarInfo("bomb")
    member.size = 2**41
    layout.add(b"", compress=lambda _: gzip.compress(member.tobuf() + bytes(1024)))

    assert refusal(f"oci:{layout.directory}") == "the files of a layer claim to be larger than 1 TiB"


def test_names_that_are_not_utf_8_are_names(layout, reader):
    member = tarfile.TarInfo("x_gfx942.co")
    content = member.tobuf(tarfile.GNU_FORMAT).replace(b"x_gfx942.co", b"\xff_gfx942.co")
    checksum = sum(content[:148]) + 8 * 32 + sum(content[156:])
    layout.add(content[:148] + b"%06o\0 " % checksum + content[156:] + bytes(1024))

    assert read(f"oci:{layout.directory}") == ["gfx942"]


@pytest.mark.parametrize("digest", ["sha256:../../../etc/passwd", "md5:00", "", None, 7])
def test_a_digest_is_no_path(digest, layout):
    layout.manifests = [{"digest": digest}]
    layout.write_index()

    assert refusal(f"oci:{layout.directory}") == "a blob of the image has no sha256 or sha512 digest"


def test_a_blob_that_is_a_link_or_a_pipe_is_not_read(layout, tmp_path):
    digest = "a" * 64
    layout.manifests = [{"digest": f"sha256:{digest}"}]
    layout.write_index()
    blob = layout.path_of(digest)

    blob.symlink_to("/etc/passwd")
    assert refusal(f"oci:{layout.directory}") == f"{blob} cannot be read: it is a symbolic link"
    blob.unlink()
    os.mkfifo(blob)
    assert refusal(f"oci:{layout.directory}") == f"{blob} is not a plain file"


def test_an_index_that_leads_to_itself_ends(layout):
    index = layout.add_blob(b'{"manifests": []}')
    for _ in range(5):
        index = layout.add_blob(json.dumps({"manifests": [index]}).encode())
    layout.manifests = [index]
    layout.write_index()

    assert refusal(f"oci:{layout.directory}").endswith("is an index in an index in an index")


def test_an_image_is_chosen_by_its_tag_or_because_it_is_the_only_one(layout, make_layer):
    layout.add(make_layer("x_gfx900.co"), tag="a")
    assert read(f"oci:{layout.directory}") == ["gfx900"]

    layout.add(make_layer("x_gfx942.co"), tag="b")
    assert read(f"oci:{layout.directory}:b") == ["gfx942"]
    assert refusal(f"oci:{layout.directory}") == f"oci:{layout.directory} has 2 images (name one: a, b)"
    assert refusal(f"oci:{layout.directory}:c") == f"oci:{layout.directory}:c has no such image"


def test_a_saved_image_is_read_from_front_to_end(tmp_path, reader, make_layer):
    archive = tmp_path / "saved.tar"
    write_saved(make_layer, archive, [make_layer("x_gfx900.co", "y_gfx90a.co"), make_layer(".wh.x_gfx900.co")])

    assert read(f"docker-archive:{archive}") == ["gfx90a"]


def test_an_archive_that_is_no_image_is_one_sentence(tmp_path, make_layer):
    archive = tmp_path / "other.tar"
    archive.write_bytes(make_layer("a.tar.gz"))

    assert refusal(f"docker-archive:{archive}") == (
        f"{archive} has no manifest.json (write it with 'docker save' or 'podman save')"
    )
    assert refusal(f"docker-archive:{tmp_path}/none") == f"{tmp_path}/none cannot be read: it does not exist"


def write_saved(make_layer, archive, layers):
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": "c.json", "Layers": names}]).encode()
    members = [*zip(names, layers, strict=True), ("c.json", b'{"config": {}}'), ("manifest.json", manifest)]
    archive.write_bytes(make_layer(*members, ("0/VERSION", b"1.0")))


def test_an_engine_is_asked_to_save_an_image(tmp_path, monkeypatch, make_layer):
    write_saved(make_layer, tmp_path / "saved.tar", [make_layer("x_gfx942.co")])
    docker = tmp_path / "docker"
    docker.write_text(
        f'#!/bin/sh\ntest "$*" = "save app:1" && exec cat {tmp_path}/saved.tar\necho "no app" >&2\nexit 1\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert read("docker:app:1") == ["gfx942"]
    assert refusal("docker:other") == "docker cannot save it: no app"
    assert refusal("docker:--output=x") == "docker:--output=x does not name an image"


def test_a_root_file_system_is_read_and_no_link_followed(tmp_path):
    (tmp_path / "root/lib").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/x_gfx900.co").touch()
    (tmp_path / "root/lib/x_gfx942.co").touch()
    (tmp_path / "root/away").symlink_to(tmp_path / "outside")
    (tmp_path / "root/x_gfx906.co").symlink_to("/etc/passwd")

    assert read(f"dir:{tmp_path}/root") == ["gfx942"]
    assert refusal(f"dir:{tmp_path}/none") == f"{tmp_path}/none cannot be read: it does not exist"


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


@pytest.mark.parametrize("at", [0, 4096, 2**17, 2**18 - 100, 2**18 - 10, 2**18 + 5])
def test_compressed_bundles_are_read_wherever_they_stand(at, layout, reader, make_layer):
    compress_with_zstd(b"")  # it is skipped where there is no libzstd
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
        BUNDLE_OF_CLANG[:30],
    ],
    ids=["damaged", "unknown method", "unknown version", "cut off"],
)
def test_a_bundle_that_cannot_be_read_is_named(bundle, layout, reader, make_layer):
    layout.add(make_layer(("lib/a.so", b"\x7fELF" + bundle), ("b_gfx90a.co", b"")))

    layers = read_image(parse_reference(f"oci:{layout.directory}"), Progress(), deep=True).layers

    assert (targets_of(layers), unreadable_in(layers)) == (["gfx90a"], ["lib/a.so"])


def test_the_letters_of_the_magic_are_no_bundle(layout, reader, make_layer):
    layout.add(make_layer(("a.so", b"\x7fELF and the text CCOB in it"), ("b.so", b"\x7fELF" + b"CCOB" + bytes(99))))

    assert unreadable_in(read_image(parse_reference(f"oci:{layout.directory}"), Progress(), deep=True).layers) == []


def test_bundles_without_end_are_refused(layout, reader, make_layer, monkeypatch):
    monkeypatch.setattr(deep, "MOST_BUNDLES", 10)
    layout.add(make_layer(*((f"{number}.so", b"\x7fELF" + b"CCOB" * 4) for number in range(3))))

    with pytest.raises(ImageError) as caught:
        read(f"oci:{layout.directory}", deep=True)
    assert str(caught.value) == "a layer has more than 10 compressed bundles of code"


@pytest.mark.parametrize("text", ["", "app", "oci:", "docker", "registry:app"])
def test_a_word_that_names_no_image_is_refused_with_the_forms(text):
    with pytest.raises(ImageError) as caught:
        parse_reference(text)
    assert str(caught.value) == (
        f"{text} does not name an image"
        " (write oci:DIR[:TAG], docker-archive:FILE, dir:PATH, docker:NAME or podman:NAME)"
    )


@given(st.lists(st.sampled_from(["a", "b", "a/b", "a/b/c", "c"]), max_size=6), st.lists(st.sampled_from("abc")))
def test_what_is_deleted_is_gone_with_everything_below_it(added, deleted):
    below, above = LayerContents(), LayerContents()
    for directory in added:
        below.add(f"{directory}/x_gfx90a.co")
    for directory in deleted:
        above.add(f".wh.{directory}")

    left = [directory for directory in added if directory.split("/")[0] not in deleted]

    assert targets_of([below, above]) == (["gfx90a"] if left else [])


@given(st.text("./ab", max_size=20))
def test_a_clean_path_leads_nowhere_but_down(path):
    parts = clean(path).split("/")

    assert ".." not in parts
    assert "." not in parts
    assert parts == [""] or "" not in parts


@given(st.binary(max_size=2000))
def test_bytes_that_are_no_layer_end_in_one_sentence_or_in_nothing(content):
    try:
        layer = read_layer(io.BytesIO(content), Progress())
    except ImageError as error:
        assert "\n" not in error.message
    else:
        assert layer.targets_by_path == {}
