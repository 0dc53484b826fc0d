from __future__ import annotations

from importlib.metadata import version

import amd_container_runtime


def test_the_version_is_that_of_the_distribution() -> None:
    assert amd_container_runtime.__version__ == version("amd-container-runtime")
