"""Targets of compilers, and what they run on."""

from __future__ import annotations

import pytest

from amdgpu_discovery.tables.targets import belongs_to, family_of, fits, generation_of, parse_override

# LLVM's list of generic processors.
GENERIC = {
    "gfx9-generic": ("gfx900", "gfx902", "gfx904", "gfx906", "gfx909", "gfx90c"),
    "gfx9-4-generic": ("gfx940", "gfx941", "gfx942", "gfx950"),
    "gfx10-1-generic": ("gfx1010", "gfx1011", "gfx1012", "gfx1013"),
    "gfx10-3-generic": ("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"),
    "gfx11-generic": ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153"),
    "gfx12-generic": ("gfx1200", "gfx1201"),
}


@pytest.mark.parametrize(
    ("target", "targets", "runs"),
    [
        ("gfx942", ("gfx90a", "gfx942"), True),
        ("gfx1151", ("gfx1100", "gfx1101"), False),
        ("gfx1151", ("gfx11-generic",), True),
        ("gfx1032", ("gfx10-3-generic",), True),
        ("gfx942", ("gfx9-generic",), False),
        ("gfx942", (), False),
    ],
)
def test_a_gpu_runs_code_for_its_target_and_for_its_generic_one(target, targets, runs):
    assert fits(target, targets) is runs


@pytest.mark.parametrize(
    ("version", "target"),
    [
        ("10.3.0", "gfx1030"),
        ("9.0.10", "gfx90a"),
        ("11.0", ""),
        ("11.0.x", ""),
        ("", ""),
        ("1.2.3.4", ""),
        (" 11.0.0", "gfx1100"),
        ("63.255.255", "gfx63ffff"),
        ("64.0.0", ""),
        ("11.0.256", ""),
        ("11.0.0 ", ""),
        ("9" * 5000 + ".0.0", ""),
    ],
)
def test_an_override_is_a_target(version, target):
    assert parse_override(version) == target


@pytest.mark.parametrize(
    ("target", "name", "belongs"),
    [
        ("gfx942", "gfx94X", True),
        ("gfx1100", "gfx110x", True),
        ("gfx1151", "gfx110X", False),
        ("gfx1100", "gfx11X", False),
        ("gfx942", "gfx942", True),
        ("gfx942", "gfx9-4-generic", True),
        ("gfx942", "", False),
    ],
)
def test_a_target_belongs_to_its_family(target, name, belongs):
    assert belongs_to(target, name) is belongs


def test_a_family_is_a_target_without_its_last_letter():
    assert [family_of(target) for target in ("gfx942", "gfx90a", "gfx1100", "")] == ["gfx94X", "gfx90X", "gfx110X", ""]


ALL_TARGETS = sorted({target for members in GENERIC.values() for target in members} | {"gfx908", "gfx90a", "gfx803"})


def test_code_for_one_target_runs_on_no_other():
    """Every pair of exact targets."""
    pairs = [(gpu, code) for gpu in ALL_TARGETS for code in ALL_TARGETS]

    assert [pair for pair in pairs if fits(pair[0], [pair[1]])] == [(target, target) for target in ALL_TARGETS]


def test_generic_code_runs_on_the_targets_of_the_table_and_on_no_other():
    """Every pair of a target and a generic one."""
    runs = {name: tuple(target for target in ALL_TARGETS if fits(target, [name])) for name in GENERIC}

    assert runs == {name: tuple(sorted(members)) for name, members in GENERIC.items()}


def test_modes_behind_a_target_are_those_of_a_gpu_that_does_not_tell_them():
    assert fits("gfx90a", ["gfx90a:sramecc+:xnack-"])
    assert not fits("gfx90a", ["gfx908:xnack-"])


def test_spirv_is_compiled_for_every_gpu():
    assert all(fits(target, ["amdgcnspirv"]) for target in ALL_TARGETS)


@pytest.mark.parametrize(
    ("target", "generation"), [("gfx90a", "9"), ("gfx942", "9"), ("gfx1036", "10"), ("gfx1201", "12")]
)
def test_a_generation_is_what_stands_before_minor_and_stepping(target, generation):
    assert generation_of(target) == generation
