"""What is kept of the names in an image is bounded, however many layers it has and however deep its paths are."""

from __future__ import annotations

import tracemalloc

import pytest

from amd_gpu_images import bounds
from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.content import contents
from amd_gpu_images.content.contents import LayerContents, targets_of
from amd_gpu_images.reference import parse_reference, read_image


def refusal(layout):
    with pytest.raises(ImageError) as caught:
        read_image(parse_reference(f"oci:{layout.directory}"), Reading())
    return str(caught.value)


def test_a_file_with_code_that_is_deeper_than_any_is_refused(layout, reader, make_layer):
    layout.add(make_layer("d/" * 64 + "x_gfx900.co"))

    assert refusal(layout) == "a file with code is more than 64 directories deep"


def test_other_files_may_be_as_deep_as_they_like(layout, reader, make_layer):
    layout.add(make_layer("d/" * 63 + "x_gfx900.co", "e/" * 1000 + "x", "e/" * 1000 + ".wh.x"), make_layer("d/d"))

    assert targets_of(read_image(parse_reference(f"oci:{layout.directory}"), Reading()).layers) == []


@pytest.mark.parametrize("name", ["d/{}_gfx900.co", "d/.wh.{}", "d{}/.wh..wh..opq"])
def test_the_names_that_are_kept_of_a_layer_are_bounded(name, layout, reader, monkeypatch, make_layer):
    monkeypatch.setattr(contents, "LARGEST_KEPT", 10_000)
    layout.add(make_layer(*(name.format(number) for number in range(100))))

    assert refusal(layout) == "the names of files with code and of deletions in a layer take more than 32 MiB"


def test_a_directory_with_the_name_of_code_counts_too(monkeypatch):
    monkeypatch.setattr(contents, "LARGEST_KEPT", 200)
    layer = LayerContents()
    layer.add_directory("x_gfx900.co")

    with pytest.raises(ImageError):
        layer.add_directory("y_gfx900.co")


def test_many_targets_in_one_name_count(monkeypatch):
    monkeypatch.setattr(contents, "LARGEST_KEPT", 5_000)

    with pytest.raises(ImageError):
        LayerContents().add("".join(f"gfx9{number:02}" for number in range(100)) + ".co")


def test_the_names_that_are_kept_of_all_layers_are_bounded(layout, reader, monkeypatch, make_layer):
    monkeypatch.setattr(bounds, "LARGEST_KEPT", 10_000)
    layout.add(*(make_layer(f"{number}_gfx900.co") for number in range(60)))

    assert refusal(layout) == "the names of files with code and of deletions in an image take more than 32 MiB"


def test_the_directories_above_files_with_code_are_bounded(monkeypatch):
    monkeypatch.setattr(contents, "MOST_CODE_DIRECTORIES", 100)
    below, above = LayerContents(), LayerContents()
    for number in range(10):
        below.add(f"{number}/" + "d/" * 20 + "x_gfx900.co")

    with pytest.raises(ImageError) as caught:
        targets_of([below, above])
    assert str(caught.value) == "the files with code of an image are in more than 100 directories"


def test_directories_of_long_names_take_little_memory():
    below, above = LayerContents(), LayerContents()
    for number in range(100):
        below.add(f"{number}/" + f"{'d' * 60}/" * 60 + "x_gfx900.co")
    above.note_path("0")

    tracemalloc.start()
    try:
        left = targets_of([below, above])
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert left == ["gfx900"]
    assert most < 6 * 1024 * 1024
