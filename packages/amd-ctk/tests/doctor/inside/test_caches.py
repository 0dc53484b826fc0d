"""Which caches of kernels a container has filled since it started."""

from __future__ import annotations

import os

import pytest

from amd_ctk.doctor.inside.caches import find_compiled, find_home

START = 1_800_000_000.0


def make_cache(home, name, made):
    directory = home / name / "3.4.0"
    directory.mkdir(parents=True)
    os.utime(directory, (made, made))


def test_what_is_newer_than_the_container_was_compiled_in_it(tmp_path):
    make_cache(tmp_path, ".cache/miopen", START + 60)
    make_cache(tmp_path, ".triton/cache", START - 60)
    (tmp_path / ".cache/comgr").mkdir()

    assert find_compiled(str(tmp_path), START) == [f"{tmp_path}/.cache/miopen"]


def test_a_home_directory_that_is_not_there_has_no_cache(tmp_path):
    assert find_compiled(f"{tmp_path}/nobody", START) == []


@pytest.mark.parametrize(
    ("variables", "home"), [({"HOME": "/home/u1/"}, "/home/u1"), ({"HOME": "/x; reboot"}, "/root"), ({}, "/root")]
)
def test_only_a_plain_path_is_a_home_directory(variables, home):
    assert find_home(variables) == home
