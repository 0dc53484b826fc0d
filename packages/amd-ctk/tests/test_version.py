from __future__ import annotations

from importlib.metadata import version

import amd_ctk


def test_the_version_is_that_of_the_distribution() -> None:
    assert amd_ctk.__version__ == version("amd-ctk")
