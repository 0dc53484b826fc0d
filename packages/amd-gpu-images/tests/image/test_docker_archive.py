"""The archive around the layers, as `docker save` writes it, and as enemies do."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tracemalloc

import pytest

from amd_gpu_images import bounds
from amd_gpu_images.archives import docker_archive
from amd_gpu_images.archives.docker_archive import read_archive
from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.content.contents import targets_of


def read(content):
    return targets_of(read_archive(io.BytesIO(content), "x.tar", Reading()).layers)


def refusal(content):
    with pytest.raises(ImageError) as caught:
        read(content)
    return str(caught.value)


def saved(make_layer, *layers):
    names = [f"{number}.tar" for number in range(len(layers))]
    manifest = json.dumps([{"Config": "c.json", "Layers": names}]).encode()
    return make_layer(*zip(names, layers, strict=True), ("c.json", b"{}"), ("manifest.json", manifest))


def extension(kind, content):
    header = tarfile.TarInfo("extension")
    header.type, header.size = kind, len(content)
    return header.tobuf() + content + bytes(-len(content) % 512)


def sparse(follows):
    """Return the header of a sparse file of GNU's, and so many behind it that say where its content belongs."""
    header = tarfile.TarInfo("sparse")
    header.type = tarfile.GNUTYPE_SPARSE
    block = bytearray(header.tobuf(tarfile.GNU_FORMAT))
    block[482] = 1
    block[148:156] = b"%06o\0 " % (sum(block[:148]) + 8 * 32 + sum(block[156:]))
    return bytes(block) + (bytes(504) + b"\1" + bytes(7)) * follows + bytes(512)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_an_archive_of_any_compression_is_read(compress, make_layer):
    layers = [make_layer("x_gfx900.co", ("big", bytes(3_000_000)), "x_gfx906.co"), make_layer(".wh.x_gfx900.co")]

    assert read(compress(saved(make_layer, *layers))) == ["gfx906"]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_an_archive_that_is_cut_off_is_one_sentence(compress, make_layer):
    content = compress(saved(make_layer, make_layer("x_gfx900.co")))

    assert refusal(content[: len(content) // 2]).startswith("x.tar is not an archive of an image: ")


@pytest.mark.parametrize("start", [b"BZh9", b"\x1f\x8b", b"\xfd7zXZ\0"])
def test_an_archive_whose_compression_is_damaged_is_one_sentence(start):
    assert refusal(start + b"x" * 600).startswith("x.tar is not an archive of an image: ")


def test_an_archive_is_decompressed_piece_by_piece():
    content = bz2.compress(bytes(48 * 1024 * 1024))

    tracemalloc.start()
    try:
        words = refusal(content)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert words == "x.tar has no manifest.json (write it with 'docker save' or 'podman save')"
    assert len(content) < 200
    assert most < 8 * 1024 * 1024


def test_xz_around_an_archive_gets_no_more_memory_than_xz_of_a_layer(make_layer):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 256 * 1024 * 1024}]

    assert refusal(lzma.compress(saved(make_layer), filters=filters)) == (
        "x.tar is not an archive of an image: Memory usage limit exceeded"
    )


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_headers_that_describe_headers_are_one_sentence(kind, make_layer):
    content = extension(kind, b"12 path=abc\n") * 3000 + saved(make_layer)

    assert refusal(content) == "x.tar is not an archive of an image: it has too many headers for one member"


def test_the_headers_of_an_archive_are_bounded(make_layer, monkeypatch):
    monkeypatch.setattr(docker_archive, "LARGEST_HEADERS", 1024 * 1024)

    directory = tarfile.TarInfo("directory")
    directory.type = tarfile.DIRTYPE

    words = refusal(directory.tobuf() * 3000 + saved(make_layer))

    assert words == "the headers of an archive are larger than any image needs"


@pytest.mark.parametrize("cut", [512, 1024, 1536])
def test_a_sparse_file_at_the_end_of_an_archive_is_one_sentence(cut):
    assert refusal(sparse(2)[:cut]) == "x.tar is not an archive of an image: a member is a sparse file"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("where", ["around", "in a layer"])
def test_little_that_unpacks_to_much_is_bounded_by_processor_time(pack, where, make_layer, monkeypatch):
    monkeypatch.setattr(bounds, "IMAGE_SECONDS", 0.0)
    monkeypatch.setattr(bounds, "SECONDS_OF_MIB", 0.01)
    bomb = pack(make_layer(("zeros", bytes(40_000_000))))

    words = refusal(bomb if where == "around" else saved(make_layer, bomb))

    assert words == "reading it takes more processor time than any image of its size needs"


def test_an_image_may_cost_processor_time_by_its_size(make_layer, monkeypatch):
    monkeypatch.setattr(bounds, "IMAGE_SECONDS", 0.0)
    monkeypatch.setattr(bounds, "SECONDS_OF_MIB", 1e6)

    assert read(gzip.compress(saved(make_layer, make_layer("x_gfx906.co")))) == ["gfx906"]


def test_all_layers_of_an_image_together_are_bounded(make_layer, monkeypatch):
    monkeypatch.setattr(bounds, "LARGEST_IMAGE", 5_000_000)
    layer = make_layer(("big", bytes(1_000_000)))

    assert refusal(saved(make_layer, layer, layer, layer)) == "the files of an image are larger than 1 TiB"


def test_the_content_of_members_is_no_header(make_layer, monkeypatch):
    monkeypatch.setattr(docker_archive, "LARGEST_HEADERS", 1024 * 1024)
    layer = make_layer(("big", bytes(3_000_000)), "x_gfx906.co")

    assert read(saved(make_layer, layer, layer)) == ["gfx906"]


def test_a_member_that_claims_to_be_larger_than_any_disk_is_refused(make_layer):
    member = tarfile.TarInfo("other")
    member.size = 2**41

    assert refusal(member.tobuf() + saved(make_layer)) == "the files of an archive claim to be larger than 1 TiB"


def test_an_archive_that_names_one_layer_many_times_is_refused(make_layer):
    manifest = json.dumps([{"Config": "c.json", "Layers": ["0.tar"] * 513}]).encode()
    layer = make_layer("x_gfx906.co")

    content = make_layer(("0.tar", layer), ("c.json", b"{}"), ("manifest.json", manifest))

    assert refusal(content) == "x.tar has more than 512 layers"
