"""Fresh machines of the Debian releases on which ./demo and ./check are promised to work."""

from __future__ import annotations

import pytest

from fresh.machine import Machine
from support.installed import require_programs, require_root

SUITES = ("bookworm", "trixie")


def pytest_addoption(parser):
    parser.addoption(
        "--only", help="the sessions that ./check runs on fresh machines, by default all: --only='lint e2e'"
    )


@pytest.fixture(scope="module", params=SUITES)
def machine(request, tmp_path_factory):
    """Return a machine of one release; its tests use it one after another."""
    require_root()
    require_programs("debootstrap", "unshare", "git")
    made = Machine(request.param, tmp_path_factory.mktemp(request.param) / "root")
    yield made
    made.remove()
