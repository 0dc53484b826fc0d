"""Pick one of many images by what is known of each."""

from __future__ import annotations

import itertools

import pytest

from amd_gpu_images.check import best, judge_entries
from amd_gpu_images.content.contents import Image
from amdgpu_discovery.requirements.facts import ContainerFacts, JudgedGpu

FACTS = ContainerFacts(
    gpus=(JudgedGpu(number=0, target="gfx942"),), cpu_level=3, driver="6.12.12", rocm=("6.2", "6.3", "6.4")
)


def image(targets="", **requirements):
    annotations = {"com.amd.gpu.targets": targets} if targets else {}
    told = {f"com.amd.gpu.require.{name}": value for name, value in requirements.items()}
    return Image(layers=(), annotations={**annotations, **told})


def pick(*images):
    chosen = best(judge_entries([(str(number), each) for number, each in enumerate(images)], FACTS))
    return int(chosen.name) if chosen else None


@pytest.mark.parametrize(
    ("images", "picked"),
    [
        ([image("gfx90a"), image("gfx942")], 1),
        ([image("gfx90a"), image("gfx1100")], None),
        ([image("gfx9-4-generic"), image("gfx942")], 1),
        ([image("amdgcnspirv"), image("gfx90a")], 0),
        ([image("amdgcnspirv"), image("gfx9-4-generic")], 1),
        ([image(gfx="gfx=gfx9-4-generic"), image(gfx="gfx=gfx94X")], 1),
        ([image(gfx="gfx=gfx94x"), image("gfx942")], 1),
        ([image(gfx="gfx=gfx90a"), image(gfx="gfx=gfx942")], 1),
        ([image(cpu="cpu>=x86-64-v2"), image(cpu="cpu>=x86-64-v3"), image(cpu="cpu>=x86-64-v4")], 1),
        ([image(rocm="rocm=6.3"), image(rocm="rocm=6.4.1"), image(rocm="rocm=7.2")], 1),
        ([image("gfx942", cpu="cpu>=x86-64-v2"), image("gfx942", rocm="rocm>=6.2")], 0),
        ([image("gfx942"), image("gfx942")], 0),
        ([image(), image()], None),
    ],
)
def test_the_image_that_fits_best_is_picked_and_the_first_of_equals(images, picked):
    assert pick(*images) == picked


def test_the_order_of_unequal_images_has_no_meaning():
    images = [image("gfx942"), image("gfx9-4-generic"), image("amdgcnspirv"), image("gfx90a")]

    assert {order[pick(*order)].annotations["com.amd.gpu.targets"] for order in itertools.permutations(images)} == {
        "gfx942"
    }


def test_a_requirement_in_an_annotation_is_refused_in_the_words_of_the_variable():
    (candidate,) = judge_entries([("a", image("gfx942", rocm="rocm>=7.0"))], FACTS)

    assert candidate.reason == ("AMD_REQUIRE_ROCM=rocm>=7.0: the amdgpu driver 6.12.12 is tested with ROCm 6.2 to 6.4")


def test_a_requirement_that_means_nothing_fits_no_host():
    (candidate,) = judge_entries([("a", image("gfx942", colour="red"))], FACTS)

    assert candidate.reason == (
        "AMD_REQUIRE_COLOUR=red: there is no property 'red';"
        " the properties are cpu, driver, gfx, gpus, kernel, partition, rocm, vram"
    )


def test_an_index_is_judged_by_its_annotations_and_platforms():
    images = [
        ("a", Image(layers=(), annotations={"com.amd.gpu.targets": "gfx942"}, cpu="x86-64-v4")),
        ("b", Image(layers=(), annotations={"com.amd.gpu.targets": "gfx9-4-generic"})),
        ("c", Image(layers=(), annotations={"com.amd.gpu.targets": "gfx942"}, cpu="x86-64-v2")),
        ("d", Image(layers=())),
    ]

    candidates = judge_entries(images, FACTS)

    assert [candidate.reason for candidate in candidates] == [
        "platform.variant=cpu>=x86-64-v4: the processor is x86-64-v3",
        "",
        "",
        "it does not say what it is for",
    ]
    assert best(candidates).name == "c"
    assert best([]) is None
