"""The tables that age say where they come from and of which day they are."""

from __future__ import annotations

import datetime

import pytest

from amdgpu_discovery.host import Host
from amdgpu_discovery.tables import read_table
from amdgpu_discovery.tables.driver_versions import OWN_TABLE, is_tested, read_releases


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
        ("6.12.12", "6.2beta", True),
        ("6.16.13", "7.2.0", True),
        ("6.16.13", "6.2.4", False),
        # As the files of 30.20.1, 31.30 and 31.40 say.
        ("6.16.6", "7.1.0", True),
        ("6.16.6", "7.2.0", None),
        ("6.19.4", "7.13.0", True),
        ("6.19.14.31400000", "7.14.0", True),
        ("6.19.14.31400100", "7.14.0", True),
        ("6.19.14.31400000", "7.2.0", False),
        ("6.20.1.31500000", "10.0.0", True),
        ("6.20.1.31600000", "10.0.0", None),
        ("6.19.14.7", "7.14.0", None),
        ("6.12.12", "4.5.2", False),
        ("30.30.3", "7.2.1", True),
        ("31.40.1", "7.14.0", True),
        ("31.40.1", "7.2.0", False),
        ("31.50.0", "10.0.0", True),
        # Newer than the table: older than its neighbour's oldest is not tested, and of all else nobody knows.
        ("31.60.0", "7.14.0", False),
        ("31.60.0", "10.0.0", None),
        ("31.60.0", "10.2.0", None),
        ("6.19.5", "7.1.0", None),
        ("6.19.5", "6.2.0", False),
        ("7.0.1", "7.2.0", None),
        ("", "7.1.0", None),
        ("x", "7.1.0", None),
        ("6.12.12", "x", None),
    ],
)
def test_a_rocm_is_tested_with_a_driver_where_amd_says_so(tmp_path, module, rocm, tested):
    assert is_tested(read_releases(Host(str(tmp_path)), module), rocm) is tested


def test_the_releases_of_a_driver_are_the_tables(tmp_path):
    host = Host(str(tmp_path))

    assert read_releases(host, "6.10.5").tested == ("6.1", "6.2", "6.3", "6.4")
    assert read_releases(host, "5.0").tested == ()
    assert (read_releases(host, "99.1").is_newer, read_releases(host, "99.1").oldest) == (True, "10.0")


def write_own(tmp_path, text):
    path = tmp_path / OWN_TABLE.lstrip("/")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return Host(str(tmp_path))


def test_a_file_of_the_administrator_extends_the_table(tmp_path):
    host = write_own(tmp_path, '{"modules": {"31.60": {"tested": ["10.0", "10.2"]}, "6.16": {"tested": ["7.1"]}}}')

    assert read_releases(host, "31.60.1").tested == ("10.0", "10.2")
    assert read_releases(host, "6.16.6").tested == ("7.1",)
    assert read_releases(host, "6.16.13").tested == ("6.3", "6.4", "7.0", "7.1", "7.2")


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[]", "7", '{"modules": 7}', '{"modules": {"31.60": 7}}', '{"modules": {"": {"tested": ["1"]}}}'),
        *(
            '{"modules": {"31.60": {"tested": [7]}}}',
            '{"modules": {"31.60": {"tested": ["x"]}}}',
            "[" * 50_000,
            " " * 70_000,
        ),
    ],
)
def test_a_file_of_the_administrator_that_says_nothing_is_passed_over(tmp_path, text):
    host = write_own(tmp_path, text)

    assert read_releases(host, "6.10.5").tested == ("6.1", "6.2", "6.3", "6.4")
    assert read_releases(host, "31.60.1").is_newer
