"""What `import amd_gpu_tracker` offers."""

from __future__ import annotations

import amd_gpu_tracker
from support.described import undescribed


def test_every_name_of_the_front_page_is_there():
    assert [name for name in amd_gpu_tracker.__all__ if not callable(getattr(amd_gpu_tracker, name))] == []


def test_help_describes_every_field_and_parameter():
    assert undescribed(amd_gpu_tracker) == []
