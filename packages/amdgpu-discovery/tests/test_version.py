from __future__ import annotations

from importlib.metadata import version

import amdgpu_discovery


def test_the_version_is_that_of_the_distribution() -> None:
    assert amdgpu_discovery.__version__ == version("amdgpu-discovery")
