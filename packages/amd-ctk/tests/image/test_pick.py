"""Pick one of many images, and make many: what `matrix` makes `pick` finds."""

from __future__ import annotations

import itertools

import pytest

from amd_ctk.image.bounds import ImageError
from amd_ctk.image.contents import Image
from amd_ctk.image.matrix import build_matrix, parse_template
from amd_ctk.image.pick import best, judge_entries, judge_tags
from amdgpu_discovery.requirements.check import check_requirements
from amdgpu_discovery.requirements.facts import ContainerFacts, GpuFacts, RequirementError

FACTS = ContainerFacts(
    gpus=(GpuFacts(number=0, target="gfx942"),), cpu_level=3, driver="6.12.12", rocm=("6.2", "6.3", "6.4")
)


def pick(template, *tags, facts=FACTS):
    chosen = best(judge_tags(tags, parse_template(template), facts))
    return chosen.name if chosen else ""


@pytest.mark.parametrize(
    ("template", "tags", "picked"),
    [
        ("app:{gfx}", ["app:gfx90a", "app:gfx942"], "app:gfx942"),
        ("app:{gfx}", ["app:gfx90a", "app:gfx1100"], ""),
        ("app:{gfx}", ["app:gfx9-4-generic", "app:gfx942"], "app:gfx942"),
        ("app:{gfx}", ["app:amdgcnspirv", "app:gfx90a"], "app:amdgcnspirv"),
        ("app:{gfx}", ["app:amdgcnspirv", "app:gfx9-4-generic"], "app:gfx9-4-generic"),
        ("app:{gfx|family}", ["app:gfx94X", "app:gfx9-4-generic"], "app:gfx94X"),
        ("app:{family}", ["app:gfx90X", "app:gfx94x"], "app:gfx94x"),
        ("app:{cpu}", ["app:x86-64-v2", "app:x86-64-v3", "app:x86-64-v4"], "app:x86-64-v3"),
        ("app:{rocm}-{gfx}", ["app:6.3-gfx942", "app:6.4.1-gfx942", "app:7.2-gfx942"], "app:6.4.1-gfx942"),
        ("app:{version}-{gfx}", ["app:9-gfx942", "app:10-gfx942", "app:10-gfx90a"], "app:10-gfx942"),
        ("r.example:5000/app:{version}-{gfx}", ["r.example:5000/app:1-gfx942", "rxexample:5000/app:2-gfx942"],
         "r.example:5000/app:1-gfx942"),
        ("app:{gfx}", ["app:latest", "", "app:gfx942-debug"], ""),
    ],
)  # fmt: skip
def test_the_image_that_fits_best_is_picked(template, tags, picked):
    assert pick(template, *tags) == picked


def test_the_order_of_tags_has_no_meaning():
    tags = ["app:1-gfx942", "app:1-gfx94X", "app:2-gfx94X", "app:1-gfx9-4-generic", "app:3-gfx90a"]

    picked = {pick("app:{version}-{gfx|family}", *order) for order in itertools.permutations(tags)}

    assert picked == {"app:1-gfx942"}


def test_of_the_others_it_is_said_why_not():
    candidates = judge_tags(["app:gfx90a-x86-64-v3", "app:gfx942-x86-64-v4"], parse_template("app:{gfx}-{cpu}"), FACTS)

    assert [(candidate.name, candidate.reason) for candidate in candidates] == [
        ("app:gfx90a-x86-64-v3", "GPU 0 is gfx942"),
        ("app:gfx942-x86-64-v4", "the processor is x86-64-v3"),
    ]


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("app:{arch}", "app:{arch}: there is no field {arch}"),
        ("app:{gfx}-{gfx}", "app:{gfx}-{gfx}: a field occurs twice"),
        ("app", "app has no field, as in app:{version}-{gfx}"),
    ],
)
def test_a_template_that_means_nothing_is_refused(template, words):
    with pytest.raises(ImageError) as caught:
        parse_template(template)
    assert caught.value.message == words


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
        "it says nothing about what it is for",
    ]
    assert best(candidates).name == "c"
    assert best([]) is None


VALUES = {
    "gfx": ["gfx90a", "gfx942", "gfx9-4-generic"],
    "family": ["gfx94X"],
    "cpu": ["x86-64-v3", "x86-64-v4"],
    "rocm": ["6.4", "7.2"],
}
GPUS = ("gfx90a", "gfx942", "gfx950", "gfx1100")


@pytest.mark.parametrize(("target", "level"), list(itertools.product(GPUS, (2, 3, 4))))
def test_what_a_matrix_makes_is_what_is_picked(target, level):
    """The requirements that a build gets and those that its tag stands for are the same, on every host."""
    template = parse_template("app:{rocm}-{gfx|family}-{cpu}")
    made = build_matrix(template, VALUES)["target"].values()
    facts = FACTS.replace(gpus=(GpuFacts(number=0, target=target),), cpu_level=level)

    fit_by_requirement = {image["tags"][0] for image in made if starts(image["args"], facts)}
    candidates = judge_tags([image["tags"][0] for image in made], template, facts)

    assert len(made) == 16
    assert {candidate.name for candidate in candidates if not candidate.reason} == fit_by_requirement


def starts(requirements, facts):
    try:
        check_requirements(requirements, facts)
    except RequirementError:
        return False
    return True


def test_a_matrix_is_a_bake_file():
    template = parse_template("app:{version}-{gfx}-{cpu}")

    bake = build_matrix(template, {"version": ["1.0"], "gfx": ["gfx90a", "gfx942"], "cpu": ["x86-64-v3"]})

    assert bake["group"] == {"default": {"targets": ["1_0-gfx90a-x86-64-v3", "1_0-gfx942-x86-64-v3"]}}
    assert bake["target"]["1_0-gfx942-x86-64-v3"] == {
        "tags": ["app:1.0-gfx942-x86-64-v3"],
        "args": {"AMD_REQUIRE_GFX": "gfx=gfx942", "AMD_REQUIRE_CPU": "cpu>=x86-64-v3"},
        "labels": {"com.amd.gpu.targets": "gfx942"},
        "annotations": ["manifest:com.amd.gpu.targets=gfx942", "manifest-descriptor:com.amd.gpu.targets=gfx942"],
        "platforms": ["linux/amd64/v3"],
    }


def test_a_matrix_without_levels_of_processors_names_no_platform():
    bake = build_matrix(parse_template("app:{rocm}"), {"rocm": ["6.4"], "gfx": []})

    assert bake["target"] == {"6_4": {"tags": ["app:6.4"], "args": {"AMD_REQUIRE_ROCM": "rocm=6.4"}}}


@pytest.mark.parametrize(
    ("values", "tags"),
    [
        ({"gfx": ["gfx942"], "family": ["gfx110X"]}, ["app:gfx942", "app:gfx110X"]),
        ({"gfx": ["gfx942"]}, ["app:gfx942"]),
        ({"family": ["gfx110X"]}, ["app:gfx110X"]),
    ],
)
def test_a_field_for_targets_and_families_takes_both(values, tags):
    made = build_matrix(parse_template("app:{gfx|family}"), values)["target"].values()

    assert [image["tags"] for image in made] == [[tag] for tag in tags]


@pytest.mark.parametrize(
    ("template", "values", "words"),
    [
        ("app:{gfx|family}", {},
         "app:{gfx|family} has a field {gfx|family} without values (give them with --gfx or --family)"),
        ("app:{gfx}", {"gfx": ["gfx942"], "rocm": ["6.4"]},
         "app:{gfx} has no field for the values of --rocm (add {rocm} to it, or leave --rocm out)"),
        ("app:{gfx}", {"gfx": ["gfx942"], "family": ["gfx94X"]},
         "app:{gfx} has no field for the values of --family (add {family} to it, or leave --family out)"),
    ],
)  # fmt: skip
def test_no_option_of_a_matrix_is_dropped_in_silence(template, values, words):
    with pytest.raises(ImageError) as caught:
        build_matrix(parse_template(template), values)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "app:{gfx} has a field {gfx} without values"),
        ({"gfx": ["mi300"]}, "mi300 cannot stand for {gfx}"),
        ({"gfx": ["gfx942"] * 1001}, "that would be 1001 images"),
    ],
)
def test_a_matrix_that_cannot_be_made_is_refused(values, words):
    with pytest.raises(ImageError) as caught:
        build_matrix(parse_template("app:{gfx}"), values)
    assert caught.value.message == words
