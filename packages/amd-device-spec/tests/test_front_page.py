"""What `import amd_device_spec` offers."""

from __future__ import annotations

import amd_device_spec
from support.described import undescribed


def test_every_name_of_the_front_page_is_there():
    assert [name for name in amd_device_spec.__all__ if not callable(getattr(amd_device_spec, name))] == []


def test_help_describes_every_field_and_parameter():
    assert undescribed(amd_device_spec) == []
