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


def test_missing_packages_are_named_and_installed_and_their_services_stay_off(installed):
    assert len(installed.printed.splitlines()) == 2, installed.printed
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


@pytest.fixture(scope="module")
def checked(machine, installed, request):
    """Run ./check, or the part of it that was asked for."""
    return machine.run("./check", *(request.config.getoption("--only") or "").split())


def test_the_check_passes(checked):
    print(checked.stdout)

    assert checked.returncode == 0, checked.stdout
    assert ", 0 failed, " in checked.stdout.splitlines()[-1]


def test_files_left_outside_the_checkout_are_named(machine, installed, checked):
    left = sorted(machine.files() - installed.files)

    lines = [line for line in checked.stdout.splitlines() if line.startswith("Left outside ")]
    said = [path for line in lines for path in line.partition(": ")[2].split()]
    assert [path for path in left if not is_said(path, said)] == []


def is_said(path, said):
    """Return whether a path is one of those, in one of them, or a directory that one of them needs."""
    return any(f"{path}/".startswith(f"{each}/") or each.startswith(f"{path}/") for each in said)


def test_the_sources_are_as_they_were(machine, installed):
    changed = machine.run("git", "status", "--porcelain", "--ignored")

    kinds = {line.rstrip("/").rpartition("/")[2].removeprefix("!! ") for line in changed.stdout.splitlines()}
    assert kinds <= WRITTEN_INTO_THE_CHECKOUT
