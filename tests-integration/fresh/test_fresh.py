"""The two commands of the README on a machine on which nothing is installed."""

from __future__ import annotations

import pytest

# ./check takes a quarter of an hour at rest, and several times that where much else runs.
pytestmark = [pytest.mark.e2e, pytest.mark.fresh, pytest.mark.timeout(2 * 3600)]

# What uv and pip are told to use is below the checkout; these are what the programs of the system write themselves.
WRITTEN_BY_PROGRAMS = set()
# Environments, caches and compiled modules.
WRITTEN_INTO_THE_CHECKOUT = {
    *(".nox", ".venv", "site", "__pycache__"),
    *(".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
}


def test_the_demo_installs_what_it_needs_and_shows_a_container(machine):
    enabled = machine.enabled_units()

    demo = machine.run("./demo")

    assert demo.returncode == 0, demo.stdout
    assert demo.stdout.startswith("Installing into the system, with apt (a minute or two; their services stay off): ")
    assert demo.stdout.count("/dev/dri/renderD") == 3
    assert "GPU 8 does not exist, this host has GPUs 0-7" in demo.stdout
    # Docker, containerd and what Podman brings are installed and off.
    assert machine.enabled_units() == enabled


def test_the_demo_installs_nothing_the_second_time(machine):
    before = machine.files()

    demo = machine.run("./demo", "0-1")

    assert (demo.returncode, demo.stdout.count("Installing into the system")) == (0, 0), demo.stdout
    assert machine.files() == before


def test_the_check_passes_and_leaves_nothing_outside_the_checkout(machine, request):
    before = machine.files()
    only = (request.config.getoption("--only") or "").split()

    check = machine.run("./check", *only)
    print(check.stdout)

    assert check.returncode == 0, check.stdout
    assert ", 0 failed, " in check.stdout.splitlines()[-1]
    assert sorted(machine.files() - before - WRITTEN_BY_PROGRAMS) == []


def test_the_sources_are_as_they_were(machine):
    changed = machine.run("git", "status", "--porcelain", "--ignored")

    kinds = {line.rstrip("/").rpartition("/")[2].removeprefix("!! ") for line in changed.stdout.splitlines()}
    assert kinds <= {
        ".nox",
        ".venv",
        "__pycache__",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        "site",
    }
