"""The two commands of the README in a container without --privileged; the tests of a container run in this order."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fresh.conftest import SUITES
from fresh.container import Container, make_docker, make_podman
from support.installed import require_programs, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.fresh, pytest.mark.timeout(3 * 3600)]

OUTSIDE_E2E = ["lint", "types", "tests", "alone", "integration", "docs"]
NEXT = "Next: './install' on a machine with AMD GPUs, and 'amd-ctk doctor' there; './check' runs the tests here."


@pytest.fixture(scope="module", params=["docker", "podman"])
def engine(request, tmp_path_factory):
    """Return an engine that makes containers with its default profile."""
    require_root()
    require_programs("debootstrap", "git", request.param)
    if request.param == "podman":
        yield make_podman(tmp_path_factory.mktemp("podman"))
        return
    require_programs("dockerd", "containerd", "runc")
    docker = make_docker()
    yield docker
    docker.stop()


@pytest.fixture(scope="module", params=SUITES)
def container(request, engine, tmp_path_factory):
    """Return a container of one release; its tests use it one after another."""
    made = Container(engine, request.param, tmp_path_factory.mktemp(request.param))
    yield made
    made.remove()


def test_the_demo_shows_all_but_the_container(container):
    demo = container.run("./demo")

    assert demo.returncode == 0, demo.stdout
    assert "No container can be started here: this is a container without --privileged" in demo.stdout
    assert "GPU 8 does not exist, this host has GPUs 0-7" in demo.stdout
    assert "GPU 0 is in use by container train" in demo.stdout
    assert "Traceback" not in demo.stdout
    assert demo.stdout.splitlines()[-1] == NEXT


def test_the_check_passes_and_says_what_did_not_run(container, request):
    only = (request.config.getoption("--only") or "").split()

    checked = container.run("./check", *only)

    print(checked.stdout)
    if not only:
        # `privileged` runs them even if something failed here.
        keep_skipped(container.run("cat", ".nox/logs/skipped").stdout)
    assert checked.returncode == 0, checked.stdout
    last = checked.stdout.splitlines()[-1]
    assert ", 0 failed, " in last
    assert last.endswith("; e2e did not run") == (only == [])
    if not only:
        assert re.findall("^([a-z]+): .+ in [0-9]+ s$", checked.stdout, re.MULTILINE) == OUTSIDE_E2E


def keep_skipped(names):
    """Write the names of the tests that were skipped where the session `privileged` reads them."""
    if "AMD_SKIPPED_TESTS" in os.environ:
        Path(os.environ["AMD_SKIPPED_TESTS"]).write_text(names)
