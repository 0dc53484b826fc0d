"""Archives of tar, as programs write them and as enemies do."""

from __future__ import annotations

import contextlib
import gzip
import io
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_images import bounds
from amd_gpu_images.archives import tar_layer
from amd_gpu_images.archives.tar_layer import read_layer
from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.content.contents import clean, targets_of
from amd_gpu_images.reference import parse_reference, read_image


def read(reference, **options):
    return targets_of(read_image(parse_reference(reference), Reading(**options)).layers)


def refusal(reference):
    with pytest.raises(ImageError) as caught:
        read(reference)
    return str(caught.value)


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


@pytest.mark.parametrize("deep", [False, True])
def test_code_behind_large_files_is_found(deep, layout, reader, make_layer):
    files = (
        ("lib.so", b"\x7fELF" + bytes(1_000_000)),
        ("data", bytes(700_000)),
        "a_gfx90a.co",
        "b_gfx942.co",
        "c_gfx1100.co",
    )
    layout.add(make_layer(*files), compress=bytes)

    assert read(f"oci:{layout.directory}", deep=deep) == ["gfx90a", "gfx942", "gfx1100"]


def test_the_end_of_an_archive_is_its_end(layout, reader, make_layer):
    layout.add(make_layer("x_gfx900.co") + make_layer("x_gfx906.co"))

    assert read(f"oci:{layout.directory}") == ["gfx900"]


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

    layers = [read_layer(io.BytesIO(buffer.getvalue()), Reading(deep=deep)) for deep in (False, True)]

    assert [layer.targets_by_path.keys() for layer in layers] == [expected - {""}] * 2


def test_a_name_that_claims_to_be_a_gigabyte_is_not_read(layout, reader):
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 2**30
    layout.add(b"", compress=lambda _: header.tobuf(tarfile.GNU_FORMAT) + bytes(10240))

    assert refusal(f"oci:{layout.directory}").startswith("a layer is damaged: ")


def test_names_that_are_not_utf_8_are_names(layout, reader):
    member = tarfile.TarInfo("x_gfx942.co")
    content = member.tobuf(tarfile.GNU_FORMAT).replace(b"x_gfx942.co", b"\xff_gfx942.co")
    checksum = sum(content[:148]) + 8 * 32 + sum(content[156:])
    layout.add(content[:148] + b"%06o\0 " % checksum + content[156:] + bytes(1024))

    assert read(f"oci:{layout.directory}") == ["gfx942"]


def extension(kind, content):
    header = tarfile.TarInfo("extension")
    header.type, header.size = kind, len(content)
    return header.tobuf() + content + bytes(-len(content) % 512)


KINDS = [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK]


@pytest.mark.parametrize("kind", KINDS)
def test_headers_that_describe_no_file_are_counted(kind, layout, reader, monkeypatch, make_layer):
    monkeypatch.setattr(bounds, "MOST_FILE_NAMES", 100)
    layout.add(extension(kind, b"12 path=abc\n") * 101 + make_layer("x_gfx900.co"))

    assert refusal(f"oci:{layout.directory}") == "it has more than 100 files, more than any image needs"


@pytest.mark.parametrize("kind", KINDS)
def test_headers_that_describe_files_are_bounded_in_all(kind, layout, reader, monkeypatch, make_layer):
    monkeypatch.setattr(tar_layer, "LARGEST_EXTENSIONS", 1000)
    layout.add((extension(kind, b"12 path=abc\n" * 10) + make_layer("x_gfx900.co")[:1024]) * 9)

    assert refusal(f"oci:{layout.directory}") == "the headers of a layer are larger than any image needs"


def test_the_map_of_a_sparse_file_is_counted(layout, reader, monkeypatch):
    monkeypatch.setattr(bounds, "MOST_FILE_NAMES", 100)
    header = tarfile.TarInfo("sparse")
    header.type = tarfile.GNUTYPE_SPARSE
    first = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    first[482] = 1
    first[148:156] = b"%06o\0 " % (sum(first[:148]) + 8 * 32 + sum(first[156:]))
    layout.add(bytes(first) + (bytes(504) + b"\1" + bytes(7)) * 100 + bytes(1536))

    assert refusal(f"oci:{layout.directory}") == "it has more than 100 files, more than any image needs"


@pytest.mark.parametrize("deep", [False, True])
def test_a_program_that_claims_to_be_larger_than_any_disk_is_refused(deep, layout, reader, make_layer):
    size = extension(tarfile.XHDTYPE, b"29 size=99999999999999999999\n")
    layout.add(size + make_layer(("lib/a.so", b"\x7fELF" + bytes(508))))

    with pytest.raises(ImageError) as caught:
        read(f"oci:{layout.directory}", deep=deep)
    assert str(caught.value) == "the files of a layer claim to be larger than 1 TiB"
