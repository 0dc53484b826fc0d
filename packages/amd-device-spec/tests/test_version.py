from __future__ import annotations

from importlib.metadata import version

import amd_device_spec


def test_the_version_is_that_of_the_distribution() -> None:
    assert amd_device_spec.__version__ == version("amd-device-spec")
