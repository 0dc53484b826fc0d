"""Does an image fit a host? By its code, what it requires, what is written about it, and its processor."""

from __future__ import annotations

import pytest

from amd_gpu_images.bounds import ImageError
from amd_gpu_images.check import judge_for_target, judge_image, parse_target
from amd_gpu_images.content.contents import Image, LayerContents
from amdgpu_discovery.requirements.facts import ContainerFacts, JudgedGpu

HALO = ContainerFacts(gpus=(JudgedGpu(number=0, target="gfx1151", vram_mib=63488),), kernel="6.12.1", cpu_level=4)
MIXED = HALO.replace(gpus=(*HALO.gpus, JudgedGpu(number=1, target="gfx1100", vram_mib=24560)))


def layer(*targets):
    made = LayerContents()
    for target in targets:
        made.add(f"lib/x_{target}.co")
    return made


def test_an_image_with_code_for_every_gpu_fits():
    verdict = judge_image(Image(layers=(layer("gfx1100", "gfx1151"),)), MIXED)

    assert (verdict.reasons, verdict.is_known) == ((), True)


def test_generic_code_is_code():
    assert judge_image(Image(layers=(layer("gfx11-generic"),)), MIXED).reasons == ()


def test_the_gpu_without_code_is_named_with_what_the_image_has():
    assert judge_image(Image(layers=(layer("gfx900", "gfx1100"),)), MIXED).reasons == (
        "GPU 0 is gfx1151, the image has code for gfx900 gfx1100",
    )


def test_a_requirement_counts_beside_the_code():
    image = Image(layers=(layer("gfx1151"),), environment=("PATH=/bin", "AMD_REQUIRE_A=vram>=96GiB", "AMD_REQUIRE_B=x"))

    known = "cpu, driver, gfx, gpus, kernel, partition, rocm, vram"
    assert judge_image(image, HALO).reasons == (
        "AMD_REQUIRE_A=vram>=96GiB: GPU 0 has 63488 MiB of memory",
        f"AMD_REQUIRE_B=x: there is no property 'x'; the properties are {known}",
    )


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_without_code_what_is_written_about_an_image_counts(place):
    told = {"com.amd.gpu.targets": "gfx115X, gfx942"}

    assert judge_image(Image(layers=(), **{place: told}), HALO).reasons == ()
    assert judge_image(Image(layers=(), **{place: told}), MIXED).reasons == (
        "GPU 1 is gfx1100, the image says it is for gfx115X gfx942",
    )
    assert judge_image(Image(layers=(layer("gfx1100"),), **{place: told}), HALO).reasons == (
        "GPU 0 is gfx1151, the image has code for gfx1100",
    )


def test_the_level_of_the_processor_is_that_of_the_index():
    assert judge_image(Image(layers=(), cpu="x86-64-v3"), HALO).reasons == ()
    assert judge_image(Image(layers=(), cpu="x86-64-v4"), HALO.replace(cpu_level=2)).reasons == (
        "platform.variant=cpu>=x86-64-v4: the processor is x86-64-v2",
    )


def test_an_image_that_says_nothing_is_not_known():
    assert judge_image(Image(layers=(layer(),)), HALO).is_known is False


def test_a_driver_that_nobody_can_judge_is_a_note():
    verdict = judge_image(Image(layers=(), environment=("AMD_REQUIRE_DRIVER=driver>=6.12",)), HALO)

    assert verdict.notes == ("the kernel's own amdgpu driver has no version",)
    assert verdict.reasons == ()


def test_requirements_are_bounded_together_not_one_by_one():
    long = "gfx=gfx1151 " * 200
    image = Image(layers=(), environment=(f"AMD_REQUIRE_A={long}", f"AMD_REQUIRE_B={long}"))

    assert judge_image(image, HALO).reasons == ("its requirements have more than 4096 characters",)


def test_an_image_fits_a_target_for_which_it_has_code():
    image = Image(layers=(layer("gfx90a", "gfx9-4-generic"),))

    assert judge_for_target(image, "gfx942").reasons == ()
    assert judge_for_target(image, "gfx1100").reasons == ("the image has code for gfx90a gfx9-4-generic",)
    assert judge_for_target(Image(layers=()), "gfx942").is_known is False


def test_requirements_of_a_target_count_and_those_of_a_host_are_notes():
    environment = ("AMD_REQUIRE_A=gfx=gfx942,vram>=64GiB gfx=gfx950", "AMD_REQUIRE_B=driver>=6.10", "AMD_REQUIRE_C=x")
    image = Image(layers=(), environment=environment)

    known = "cpu, driver, gfx, gpus, kernel, partition, rocm, vram"
    broken = f"AMD_REQUIRE_C=x: there is no property 'x'; the properties are {known}"
    verdict = judge_for_target(image, "gfx942")
    assert verdict.reasons == (broken,)
    assert verdict.notes == (
        "AMD_REQUIRE_A=gfx=gfx942,vram>=64GiB gfx=gfx950 also depends on the host",
        "AMD_REQUIRE_B=driver>=6.10 also depends on the host",
    )
    assert judge_for_target(image, "gfx90a").reasons == (
        "AMD_REQUIRE_A=gfx=gfx942,vram>=64GiB gfx=gfx950: the GPU is gfx90a",
        broken,
    )


def test_what_only_a_host_can_meet_says_nothing_about_a_target():
    image = Image(layers=(), environment=("AMD_REQUIRE_DRIVER=driver>=6.10",))

    assert judge_for_target(image, "gfx942").is_known is False


@pytest.mark.parametrize("text", ["mi300x", "gfx94X", "gfx9-4-generic", "gfx", "gfx94x", "GFX942", "942"])
def test_only_the_target_of_a_gpu_is_one(text):
    with pytest.raises(ImageError, match=f"^'{text}' is not the target of a GPU"):
        parse_target(text)
