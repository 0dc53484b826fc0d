"""While dpkg unpacks another version, each start, hook and command is of the old one or the new one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.box import Box
from support.checked_version import checked_debs
from support.debs import build_debs
from support.installed import require_programs, require_root
from support.upgraded import Server

pytestmark = [pytest.mark.e2e]

STARTS = 10
NODE = {"path": "/dev/kfd", "major": 234, "minor": 0, "gid": 0}


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    require_root()
    require_programs("dpkg-deb", "runc", "unshare")
    return sorted(build_debs(tmp_path_factory.mktemp("debs")).glob("*.deb"))


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box("/", tmp_path / "box", [NODE]) as box:
        yield box


def test_every_program_is_of_one_version_while_dpkg_brings_another(box, debs, tmp_path):
    server = Server(lambda script: box("sh", "-c", f"cd /root\n{script}").stdout, box.share, "/box")
    for version in ("9.1", "9.2"):
        server.offer(checked_debs(debs, tmp_path / version, version=version), version)
    server.dpkg("9.1")
    server.begin()

    server.wait_for_starts(STARTS)
    server.dpkg("9.2")
    server.wait_for_starts(STARTS)

    seen = server.end()
    assert seen["failures"] == []
    assert seen["done"]["start"] >= 30
    assert seen["done"]["hook"] >= 60
    assert "kept" not in server.end_what_was_before()
    assert 'toolkit_build = "9.2"' in server.run("cat /usr/bin/amd-ctk")
