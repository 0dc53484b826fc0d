"""The tables that age say where they come from and of which day they are."""

from __future__ import annotations

import datetime

import pytest

from amdgpu_discovery.driver_versions import is_tested, releases_tested_with
from amdgpu_discovery.tables import read_table


@pytest.mark.parametrize("name", ["gpu-models", "gpu-targets", "rocm-drivers"])
def test_a_table_names_its_source_and_its_day(name):
    table = read_table(name)

    assert "http" in table["source"] or table["source"].startswith("AMD, ")
    assert datetime.date.fromisoformat(table["date"])


@pytest.mark.parametrize(
    ("module", "rocm", "tested"),
    [
        ("6.12.12", "6.4.1", True),
        ("6.12.12-2164967.24.04", "6.2", True),
        ("6.12.12", "6.1.3", False),
        ("6.12.12", "7.0.0", None),
        ("6.16.13", "7.2.0", True),
        ("6.16.13", "6.2.4", False),
        ("6.16.6", "7.1.0", None),
        ("", "7.1.0", None),
    ],
)
def test_a_rocm_is_tested_with_a_driver_where_amd_says_so(module, rocm, tested):
    assert is_tested(module, rocm) is tested


def test_the_releases_of_a_driver_are_the_tables():
    assert releases_tested_with("6.10.5") == ["6.1", "6.2", "6.3", "6.4"]
    assert releases_tested_with("5.0") == []
