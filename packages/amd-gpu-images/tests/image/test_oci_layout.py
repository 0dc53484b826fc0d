"""Which image of an OCI layout is meant, through the indexes that 'skopeo copy --all' writes into it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from amd_gpu_images.archives import oci_layout
from amd_gpu_images.archives.oci_layout import parse_entries, read_entries
from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.reference import parse_reference, read_image

INDEX = "application/vnd.oci.image.index.v1+json"
TARGETS = "com.amd.gpu.targets"


def nest(layout, tag="", **more):
    """Put all that the index of a layout lists into an index of its own."""
    inner = layout.add_blob(json.dumps({"manifests": layout.manifests}).encode())
    named = {"annotations": {"org.opencontainers.image.ref.name": tag}} if tag else {}
    layout.manifests = [{**inner, "mediaType": INDEX, **named, **more}]
    layout.write_index()


@pytest.fixture
def nested(layout, make_layer):
    """Return a layout of two images for amd64 and one for arm64 under the tag 1.0, and their digests."""
    for target, platform in (
        ("gfx90a", {"architecture": "amd64", "variant": "v3"}),
        ("gfx942", {"architecture": "amd64"}),
        ("gfx1100", {"architecture": "arm64"}),
    ):
        layout.add(make_layer(f"x_{target}.co"), annotations={TARGETS: target}, platform=platform)
    digests = [entry["digest"] for entry in layout.manifests]
    nest(layout, "1.0")
    return layout.directory, digests


def read(reference, *, with_layers=True):
    return read_image(parse_reference(reference), Reading(), with_layers=with_layers)


def refusal(call, *arguments):
    with pytest.raises(ImageError) as caught:
        call(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("tag", ["", ":1.0"])
def test_the_images_of_an_index_in_the_index_are_listed_by_tag_and_digest(tag, nested):
    directory, digests = nested

    found = [(name, image.annotations[TARGETS], image.cpu) for name, image in read_entries(f"{directory}{tag}")]

    assert found == [
        (f"oci:{directory}:1.0@{digests[0]}", "gfx90a", "x86-64-v3"),
        (f"oci:{directory}:1.0@{digests[1]}", "gfx942", ""),
    ]


def test_a_tag_that_is_not_there_lists_nothing(nested):
    assert read_entries(f"{nested[0]}:2.0") == []


def test_each_listed_image_can_be_read_by_its_name(nested):
    directory, _ = nested

    images = [read(name) for name, _ in read_entries(str(directory))]

    assert [list(image.layers[0].targets_by_path) for image in images] == [["x_gfx90a.co"], ["x_gfx942.co"]]
    assert [image.cpu for image in images] == ["x86-64-v3", ""]
    assert refusal(read, f"oci:{directory}:1.0@sha256:{'0' * 64}").endswith(" has no such image")


def test_of_two_images_for_amd64_the_way_to_one_is_reported(nested):
    assert refusal(read, f"oci:{nested[0]}:1.0") == (
        f"oci:{nested[0]}:1.0 has 2 images"
        f" ('amd-ctk image pick oci:{nested[0]}:1.0' names the one that fits by its digest)"
    )


def test_the_nearest_index_decides_about_an_image(layout, make_layer):
    layout.add(make_layer("x"), annotations={"near": "inner"}, platform={"architecture": "amd64", "variant": "v4"})
    nest(layout, annotations={"near": "outer", TARGETS: "gfx942"}, platform={"architecture": "amd64", "variant": "v2"})

    image = read(f"oci:{layout.directory}")
    ((_, listed),) = read_entries(str(layout.directory))

    assert image.annotations == listed.annotations == {"near": "inner", TARGETS: "gfx942"}
    assert image.cpu == listed.cpu == "x86-64-v4"


def test_indexes_in_indexes_are_bounded_in_depth_and_number(layout, make_layer, monkeypatch):
    layout.add(make_layer("x"))
    nest(layout)
    nest(layout)
    assert len(read_entries(str(layout.directory))) == 1

    nest(layout, "deep")
    assert refusal(read_entries, str(layout.directory)) == (
        f"oci:{layout.directory}:deep has more indexes in indexes than any image needs"
    )

    monkeypatch.setattr(oci_layout, "MOST_INDEXES", 3)
    layout.manifests = [{**layout.add_blob(b"{}"), "mediaType": INDEX}] * 4
    layout.write_index()
    assert refusal(read_entries, str(layout.directory)).endswith(" has more indexes in indexes than any image needs")


def test_an_index_in_a_file_is_listed_without_those_in_it():
    index = {"manifests": [{"digest": "sha256:aa", "mediaType": INDEX, "annotations": {TARGETS: "gfx942"}}]}

    assert [name for name, _ in parse_entries(index, "index.json")] == ["index.json@sha256:aa"]


def test_beside_images_of_other_processors_the_one_for_amd64_is_meant(layout, make_layer):
    layout.add(make_layer("x_gfx90a.co"), tag="1.0", platform={"architecture": "amd64"})
    layout.add(make_layer("x_gfx942.co"), tag="1.0", platform={"architecture": "arm64"})

    image = read(f"oci:{layout.directory}:1.0")

    assert list(image.layers[0].targets_by_path) == ["x_gfx90a.co"]
    assert len(read_entries(f"{layout.directory}:1.0")) == 1


def test_a_layout_of_images_of_other_processors_alone_is_distinguished_from_a_missing_tag(layout, make_layer):
    for _ in range(2):
        layout.add(make_layer("x"), tag="1.0", platform={"architecture": "arm64"})

    with pytest.raises(ImageError, match=f"^oci:{layout.directory}:1.0 has no image for amd64$"):
        read(f"oci:{layout.directory}:1.0")
    with pytest.raises(ImageError, match=f"^oci:{layout.directory}:2.0 has no such image$"):
        read(f"oci:{layout.directory}:2.0")


def test_an_image_in_a_directory_loads_no_client_of_registries(layout, make_layer):
    layout.add(make_layer("x_gfx90a.co"))
    environment = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    words = (sys.executable, "-m", "amd_gpu_images", "targets", f"oci:{layout.directory}")

    listed = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", check=True)

    loaded = {line.rpartition("|")[2].strip() for line in listed.stderr.splitlines()}
    assert listed.stdout == f"oci:{layout.directory}: gfx90a\n"
    assert "amd_gpu_images.archives.oci_layout" in loaded
    # hashlib loads OpenSSL, which has 3 MB.
    assert loaded & {"hashlib", "tarfile", "amd_gpu_images.registries.registry"} == set()
