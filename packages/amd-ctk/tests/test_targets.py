"""Targets of compilers, and what they run on."""

from __future__ import annotations

import pytest

from amd_ctk.targets import fits, parse_override


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
    [("10.3.0", "gfx1030"), ("9.0.10", "gfx90a"), ("11.0", ""), ("11.0.x", ""), ("", ""), ("1.2.3.4", "")],
)
def test_an_override_is_a_target(version, target):
    assert parse_override(version) == target
