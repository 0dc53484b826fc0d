"""The two commands of the README on a machine on which nothing is installed; its tests run in this order."""

from __future__ import annotations

from typing import NamedTuple

import pytest

# ./check takes a quarter of an hour at rest, and several times that where much else runs.
pytestmark = [pytest.mark.e2e, pytest.mark.fresh, pytest.mark.timeout(2 * 3600)]

# Environments, caches and compiled modules.
WRITTEN_INTO_THE_CHECKOUT = {
    *(".nox", ".venv", "site", "__pycache__"),
    *(".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
}


class Installed(NamedTuple):
    """What both commands do first where packages are missing: what was printed, what became of the machine."""

    printed: str
    new_services: set[str]
    files: set[str]


@pytest.fixture(scope="module")
def installed(machine):
    """Install what ./demo and ./check need."""
    enabled = machine.enabled_units()
    printed = machine.run(".ci/prepare").stdout
    return Installed(printed, machine.enabled_units() - enabled, machine.files())


def test_what_is_missing_is_named_and_installed_and_its_services_stay_off(installed):
    system, environment = installed.printed.splitlines()

    assert system.startswith("Installing into the system, with apt (a minute or two; their services stay off): ")
    assert {"docker.io", "podman", "runc", "crun"} <= set(system.split())
    assert environment == "Installing into /root/checkout/.venv, with pip: nox uv"
    assert installed.new_services == set()


def test_the_demo_shows_a_container(machine, installed):
    demo = machine.run("./demo")

    assert demo.returncode == 0, demo.stdout
    assert demo.stdout.startswith("Installing the toolkit as it stands here into .nox/demo ...\n")
    assert demo.stdout.count("/dev/dri/renderD") == 3
    assert "GPU 8 does not exist, this host has GPUs 0-7" in demo.stdout


def test_the_check_passes(machine, installed, request):
    only = (request.config.getoption("--only") or "").split()

    check = machine.run("./check", *only)
    print(check.stdout)

    assert check.returncode == 0, check.stdout
    assert ", 0 failed, " in check.stdout.splitlines()[-1]


def test_nothing_is_left_outside_the_checkout(machine, installed):
    assert sorted(machine.files() - installed.files) == []


def test_the_sources_are_as_they_were(machine, installed):
    changed = machine.run("git", "status", "--porcelain", "--ignored")

    kinds = {line.rstrip("/").rpartition("/")[2].removeprefix("!! ") for line in changed.stdout.splitlines()}
    assert kinds <= WRITTEN_INTO_THE_CHECKOUT
