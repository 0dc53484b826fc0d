"""A GPU server with four exclusive GPUs, on which alice, bob and carol may have what is free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.cluster_stand import ClusterStand
from support.debian_root import clusters_root
from support.installed import require_programs, require_root


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterStand]:
    """Return the server, for all tests."""
    require_root()
    require_programs("debootstrap", "nsenter", "unshare")
    stand = ClusterStand(tmp_path_factory.mktemp("clusters"), "trixie", root=clusters_root())
    try:
        stand.prepare()
        yield stand
    finally:
        stand.stop()


@pytest.fixture
def stand(running: ClusterStand) -> Iterator[ClusterStand]:
    """Return the server; what a test left behind ends, and then every GPU is free."""
    yield running
    running.end_everything()
    assert running.gpus_by_person() == {}
    assert running.ids_in_processes() == {}
