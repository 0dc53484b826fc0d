from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from amdgpu_discovery.host import Host
from amdgpu_simulator import Profile, build_host


class Simulated(Protocol):
    def __call__(self, profile: str | Profile) -> Host: ...


@pytest.fixture
def simulated(tmp_path: Path) -> Simulated:
    """Build a host from the name of a profile or from a changed one; its files are there to be edited."""

    def build(profile: str | Profile) -> Host:
        return build_host(tmp_path / "host", profile, bare=True)

    return build
