"""One stand for all tests of a module, on each Debian release that packages are made for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.installed import require_root
from support.stand import Stand
from support.system import can_boot

# Every change is tried on one of them.
SUITES = [pytest.param("bookworm", marks=pytest.mark.story), "trixie"]


@pytest.fixture(scope="module", params=SUITES)
def stand(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """Return a machine with four MI210, the toolkit, and the users alice and bob."""
    require_root()
    if not can_boot():
        pytest.skip("this machine has no cgroup version 2, in which the stand boots")
    stand = Stand(tmp_path_factory.mktemp(request.param), request.param)
    yield stand
    stand.stop()
