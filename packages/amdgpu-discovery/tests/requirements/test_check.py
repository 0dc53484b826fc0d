"""What an image requires, held against the GPUs that its container gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.requirements.check import check_image, check_requirements
from amdgpu_discovery.requirements.facts import ContainerFacts, JudgedGpu, RequirementError, cpu_level, read_cpu_level
from amdgpu_discovery.requirements.grammar import PROPERTIES, find_requirements, parse_requirement
from amdgpu_simulator import build_host

HINT = " (AMD_DISABLE_REQUIRE=true starts it anyway)"
ONE = JudgedGpu(number=2, target="gfx90a", vram_mib=65520)
PARTITION = JudgedGpu(number=7, target="gfx942", vram_mib=24576, compute_partition="CPX", memory_partition="NPS4")
FACTS = ContainerFacts(
    gpus=(ONE,), driver="6.12.12", kernel="6.8.0-45-generic", cpu_level=3, rocm=("6.2", "6.3", "6.4")
)


def refusal(value: str, facts: ContainerFacts = FACTS) -> str:
    with pytest.raises(RequirementError) as caught:
        check_requirements({"AMD_REQUIRE_X": value}, facts)
    return str(caught.value).removeprefix(f"AMD_REQUIRE_X={value}: ").removesuffix(HINT)


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "gfx=gfx90a",
        "gfx=gfx90X",
        "gfx!=gfx942",
        "gfx=amdgcnspirv",
        "gfx=gfx90a:sramecc+:xnack-",
        "gfx=gfx942 gfx=gfx90a",
        "gfx=gfx90a,vram>=63GiB",
        "vram>=65520",
        "vram<65521MiB",
        "gpus=1",
        "gpus<=8",
        "partition=SPX",
        "partition!=cpx",
        "cpu=x86-64-v2",
        "cpu>=x86-64-v3",
        "kernel>=6.8",
        "kernel=6.8",
        "kernel<=6.8.0",
        "driver>=6.12",
        "driver<6.13",
        "rocm=6.4.1",
        "rocm>=6.2",
        "rocm!=5.7",
    ],
)
def test_a_requirement_that_holds_says_nothing(value):
    assert check_requirements({"AMD_REQUIRE_X": value}, FACTS) == []


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("gfx=gfx942", "GPU 2 is gfx90a"),
        ("gfx!=gfx90X", "GPU 2 is gfx90a"),
        ("gfx=gfx9-generic", "GPU 2 is gfx90a"),
        ("gfx=gfx942 vram>=64GiB", "GPU 2 is gfx90a and GPU 2 has 65520 MiB of memory"),
        ("gfx=gfx90a,cpu>=x86-64-v4", "the processor is x86-64-v3"),
        ("gpus>=2", "the container gets 1 GPU"),
        ("partition=CPX", "GPU 2 is in SPX"),
        ("kernel>=6.9", "the kernel is 6.8.0-45-generic"),
        ("driver>6.12", "the amdgpu driver is 6.12.12"),
        ("rocm>=7.0", "the amdgpu driver 6.12.12 is tested with ROCm 6.2 to 6.4"),
        ("rocm!=6.3", "the amdgpu driver 6.12.12 is tested with ROCm 6.2 to 6.4"),
    ],
)
def test_a_requirement_that_fails_is_one_clause_about_the_thing(value, words):
    assert refusal(value) == words


def test_a_refusal_names_the_variable_as_the_image_has_it_and_what_starts_it_anyway():
    with pytest.raises(RequirementError) as caught:
        check_requirements({"AMD_REQUIRE_GFX": "gfx=gfx942"}, FACTS)

    assert str(caught.value) == f"AMD_REQUIRE_GFX=gfx=gfx942: GPU 2 is gfx90a{HINT}"
    assert caught.value.exit_code == 10


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            "arch=gfx942",
            "there is no property 'arch'; the properties are cpu, driver, gfx, gpus, kernel, partition, rocm, vram",
        ),
        ("gfx", "'gfx' is not a property, an operator (= != <= >= < >) and a value"),
        ("gfx=", "'gfx=' is not a property, an operator (= != <= >= < >) and a value"),
        ("gfx>gfx90a", "gfx can be compared with = and != only"),
        ("cpu=znver4", "'znver4' is not valid here: cpu is one of x86-64-v1, x86-64-v2, x86-64-v3, x86-64-v4"),
        ("vram>=64G", "'64G' is not valid here: vram is a number of MiB, or has a unit: 65536, 64GiB"),
        ("kernel>=six", "'six' is not valid here: kernel is compared with numbers, as in kernel>=6.8"),
    ],
)
def test_a_requirement_that_cannot_be_judged_is_refused(value, words):
    assert refusal(value) == words


def test_every_gpu_has_to_fit_and_each_may_fit_by_another_alternative():
    both = FACTS.replace(gpus=(ONE, PARTITION))

    assert check_requirements({"AMD_REQUIRE_X": "gfx=gfx90a gfx=gfx942,partition=CPX-NPS4"}, both) == []
    assert refusal("gfx=gfx90a", both) == "GPU 7 is gfx942"
    assert refusal("gfx=gfx1100", both) == "GPU 2 is gfx90a"


def test_of_gpus_that_are_alike_the_first_is_named():
    assert refusal("gfx=gfx942", FACTS.replace(gpus=(ONE, ONE.replace(number=5)))) == "GPU 2 is gfx90a"


def test_a_value_that_the_driver_does_not_report_fits_nothing():
    unknown = FACTS.replace(gpus=(JudgedGpu(number=0),))

    assert refusal("gfx!=gfx942", unknown) == "the driver does not report the target of GPU 0"
    assert refusal("vram>=1", unknown) == "the driver does not report the memory of GPU 0"
    assert refusal("cpu>=x86-64-v1", FACTS.replace(cpu_level=0)) == "the processor is not an x86-64"


def test_a_driver_without_a_version_is_not_judged_and_that_is_noted():
    own = FACTS.replace(driver="", rocm=())

    assert check_requirements({"AMD_REQUIRE_A": "driver>=6.12,rocm>=7.0", "AMD_REQUIRE_B": "driver>=1"}, own) == [
        "the kernel's own amdgpu driver has no version",
        "the ROCm versions tested with the kernel's own amdgpu driver are not known",
    ]
    assert refusal("driver>=6.12,kernel>=7", own) == "the kernel is 6.8.0-45-generic"


@pytest.mark.parametrize("requirement", ["rocm=6.2", "rocm<=6.2", "rocm<6.3", "rocm=5.7.1"])
def test_a_driver_newer_than_the_table_fails_an_older_rocm_than_the_tables(requirement):
    newer = FACTS.replace(driver="6.19.4", rocm=(), oldest_rocm="6.3")

    words = "the amdgpu driver 6.19.4 is newer than this toolkit's table, which begins with ROCm 6.3"
    assert refusal(requirement, newer) == words


@pytest.mark.parametrize("requirement", ["rocm=6.3", "rocm=9.1", "rocm<=6.3", "rocm>=6.2", "rocm>7", "rocm!=6.2"])
def test_of_a_driver_newer_than_the_table_all_else_is_noted(requirement):
    newer = FACTS.replace(driver="6.19.4", rocm=(), oldest_rocm="6.3")

    notes = check_requirements({"AMD_REQUIRE_A": requirement}, newer)

    assert notes == ["the amdgpu driver 6.19.4 is newer than this toolkit's table"]


def test_a_container_without_gpus_fits():
    assert check_requirements({"AMD_REQUIRE_X": "gfx=gfx942"}, FACTS.replace(gpus=())) == []


def test_an_override_is_judged_as_what_it_says_and_noted(tmp_path):
    host = build_host(tmp_path / "host", "strix-halo", bare=True)
    gpus = locate_gpus(host)
    environment = ["AMD_REQUIRE_GFX=gfx=gfx1100", "HSA_OVERRIDE_GFX_VERSION=11.0.0"]

    assert check_image(host, {"process": {"env": environment}}, gpus, setting="enforce") == [
        "HSA_OVERRIDE_GFX_VERSION makes ROCm take every GPU for gfx1100, which AMD does not support"
    ]
    with pytest.raises(RequirementError, match="GPU 0 is gfx1151"):
        check_image(host, {"process": {"env": environment[:1]}}, gpus, setting="enforce")


def test_the_last_value_of_a_variable_counts_and_true_switches_all_of_them_off():
    twice = ["AMD_REQUIRE_A=gfx=gfx942", "AMD_REQUIRE_A=gfx=gfx90a", "PATH=/bin", "AMD_DISABLE_REQUIRE=false"]

    assert find_requirements(twice) == {"AMD_REQUIRE_A": "gfx=gfx90a"}
    for word in ("1", "t", "T", "true", "TRUE", "True"):
        assert find_requirements([*twice, f"AMD_DISABLE_REQUIRE={word}"]) == {}


def test_the_cost_of_an_images_requirements_is_bounded():
    many = {f"AMD_REQUIRE_{number}": "gfx=gfx90a " * 10 for number in range(100)}

    with pytest.raises(RequirementError) as caught:
        check_requirements(many, FACTS)
    assert str(caught.value) == f"the variables AMD_REQUIRE_* have more than 4096 characters{HINT}"


def test_a_hostile_value_is_repeated_in_part_and_without_control_characters():
    assert refusal("\x1b[31m=1" + "x" * 999).startswith("AMD_REQUIRE_X='\\x1b[31m=1xxx")


WORDS = st.text("gfxvramcpu=!<>,. 0123456789-X", max_size=40)


@given(WORDS)
def test_any_value_either_holds_or_is_refused_in_one_line(value):
    try:
        notes = check_requirements({"AMD_REQUIRE_X": value}, FACTS)
    except RequirementError as error:
        assert "\n" not in str(error)
        assert str(error).endswith(HINT)
    else:
        assert notes == []


CONDITIONS = st.sampled_from(["gfx=gfx90a", "gfx=gfx942", "vram>=1", "vram<1", "gpus=1", "gpus=2"])
HOLDS = {"gfx=gfx90a", "vram>=1", "gpus=1"}


@given(st.lists(st.lists(CONDITIONS, min_size=1, max_size=3), min_size=1, max_size=3))
def test_a_space_is_or_and_a_comma_is_and(alternatives):
    value = " ".join(",".join(conditions) for conditions in alternatives)

    expected = any(HOLDS.issuperset(conditions) for conditions in alternatives)

    try:
        check_requirements({"AMD_REQUIRE_X": value}, FACTS)
    except RequirementError:
        assert not expected
    else:
        assert expected


@given(st.sampled_from(PROPERTIES), st.sampled_from(["=", "!="]), st.text("abc0.-", min_size=1, max_size=9))
def test_a_condition_is_taken_apart_as_it_was_put_together(subject, operator, wanted):
    (((condition,),)) = parse_requirement(f"{subject}{operator}{wanted}")

    assert (condition.subject, condition.operator, condition.value) == (subject, operator, wanted)


@given(st.tuples(*[st.integers(0, 9)] * 3), st.tuples(*[st.integers(0, 9)] * 3))
def test_versions_are_ordered_as_numbers(found, wanted):
    facts = FACTS.replace(kernel=".".join(map(str, found)) + "-generic")
    value = ".".join(map(str, wanted))
    holds = {"=": found == wanted, "!=": found != wanted, "<": found < wanted, "<=": found <= wanted}
    holds |= {">": found > wanted, ">=": found >= wanted}

    for operator, expected in holds.items():
        if expected:
            assert check_requirements({"AMD_REQUIRE_X": f"kernel{operator}{value}"}, facts) == []
        else:
            assert refusal(f"kernel{operator}{value}", facts) == f"the kernel is {facts.kernel}"


V1 = "fpu cx8 cmov mmx fxsr sse sse2 syscall"
V2 = f"{V1} pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm"
V3 = f"{V2} fma movbe xsave avx f16c abm bmi1 avx2 bmi2"


@pytest.mark.parametrize(
    ("flags", "level"),
    [("", 0), (V1, 1), (V2, 2), (V3, 3), (f"{V3} avx512f avx512dq avx512cd avx512bw avx512vl", 4), (f"{V1} avx2", 1)],
)
def test_a_processor_has_a_level_when_it_has_all_of_its_features(flags, level, tmp_path):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nvendor_id\t: x\nflags\t\t: {flags}\nbugs\t\t: y\n\n" * 2)

    assert cpu_level(flags.split()) == read_cpu_level(str(tmp_path)) == level


def test_a_processor_without_flags_has_no_level(tmp_path):
    assert read_cpu_level(str(tmp_path)) == 0
