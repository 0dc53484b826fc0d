"""For which targets an image has code, as its layers say."""

from __future__ import annotations

import bz2
import ctypes
import gzip
import io
import json
import lzma
import os
import tarfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amd_gpu_images import bounds, sources
from amd_gpu_images.archives.tar_layer import read_layer
from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.content.contents import LayerContents, clean, targets_in, targets_of
from amd_gpu_images.reference import parse_reference, read_image

LIBRARY = "opt/rocm/lib/rocblas/library"


def read(reference, **options):
    return targets_of(read_image(parse_reference(reference), Reading(**options)).layers)


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
        ("library/TensileLibrary_amdgcnspirv.co", ["amdgcnspirv"]),
        ("include/gfx90a.h", []),
        ("share/miopen/db/gfx90a68.HIP.fdb.txt", []),
        ("library/gfxfoo.co", []),
        ("library/kernels.co", []),
    ],
)
def test_a_file_name_tells_the_targets_of_its_code(path, targets):
    assert targets_in(path) == targets


def test_code_for_every_gpu_is_found_in_a_layer(layout, reader, make_layer):
    layout.add(make_layer("lib/x_amdgcnspirv.co", "lib/y_gfx90a.co"))

    assert read(f"oci:{layout.directory}") == ["gfx90a", "amdgcnspirv"]


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
    monkeypatch.setattr(sources, "LIBRARY", "libzstd.so.none")
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
def test_an_entry_in_place_of_a_directory_hides_its_content(kind, name, layout, reader, make_layer):
    below = make_layer("opt/rocm/lib/x_gfx900.co", "opt/rocm-6/x_gfx906.co")
    above = tarfile.TarInfo(name)
    above.type, above.linkname = kind, "rocm-6"

    layout.add(below, make_layer(above), make_layer("opt/rocm-6/x_gfx908.co"))

    assert read(f"oci:{layout.directory}") == ["gfx906", "gfx908"]


def test_an_entry_with_a_long_name_hides_a_directory_too(layout, reader, make_layer):
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


def test_a_layer_of_many_gzip_members_is_read(layout, reader, make_layer):
    layer = make_layer("x_gfx900.co", ("big", os.urandom(100_000)), "x_gfx906.co")

    layout.add(b"".join(gzip.compress(layer[at : at + 777]) for at in range(0, len(layer), 777)), compress=bytes)

    assert read(f"oci:{layout.directory}") == ["gfx900", "gfx906"]


def test_xz_that_asks_for_much_memory_is_refused(layout, reader, make_layer):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 256 * 1024 * 1024}]

    layout.add(make_layer("x_gfx900.co"), compress=lambda layer: lzma.compress(layer, filters=filters))

    assert refusal(f"oci:{layout.directory}") == "a layer is damaged: Memory usage limit exceeded"


def test_a_layer_that_is_no_archive_is_one_sentence(layout, reader):
    layout.add(b"", compress=lambda _: b"hello " * 200)

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
    monkeypatch.setattr(bounds, "MOST_FILE_NAMES", 100)
    layout.add(make_layer(*map(str, range(60))), make_layer(*map(str, range(60))))

    assert refusal(f"oci:{layout.directory}") == "it has more than 100 files, more than any image needs"


def test_a_file_that_claims_to_be_larger_than_any_disk_is_refused(layout, reader):
    member = tarfile.TarInfo("bomb")
    member.size = 2**41
    layout.add(b"", compress=lambda _: gzip.compress(member.tobuf() + bytes(1024)))

    assert refusal(f"oci:{layout.directory}") == "the files of a layer claim to be larger than 1 TiB"


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


@pytest.mark.parametrize("text", ["", "App", "oci:", "docker", "/app", "-v", "app:1:2", "a" * 513])
def test_a_word_that_names_no_image_is_refused_with_the_forms(text):
    with pytest.raises(ImageError) as caught:
        parse_reference(text)
    assert str(caught.value) == (
        f"{text} does not name an image"
        " (write NAME, docker://NAME, docker:NAME, podman:NAME, oci:DIR[:TAG], docker-archive:FILE or dir:PATH)"
    )


@given(st.lists(st.sampled_from(["a", "b", "a/b", "a/b/c", "c"]), max_size=6), st.lists(st.sampled_from("abc")))
def test_a_deleted_directory_is_gone_with_everything_below_it(added, deleted):
    below, above = LayerContents(), LayerContents()
    for directory in added:
        below.add(f"{directory}/x_gfx90a.co")
    for directory in deleted:
        above.add(f".wh.{directory}")

    left = [directory for directory in added if directory.split("/")[0] not in deleted]

    assert targets_of([below, above]) == (["gfx90a"] if left else [])


@given(st.text("./ab", max_size=20))
def test_a_cleaned_path_has_no_part_that_leads_up(path):
    parts = clean(path).split("/")

    assert ".." not in parts
    assert "." not in parts
    assert parts == [""] or "" not in parts


@given(st.binary(max_size=2000))
def test_bytes_that_are_no_layer_end_in_one_sentence_or_in_nothing(content):
    try:
        layer = read_layer(io.BytesIO(content), Reading())
    except ImageError as error:
        assert "\n" not in error.message
    else:
        assert layer.targets_by_path == {}
