"""From where on a GPU is not well, where the administrator says other than the driver."""

from __future__ import annotations

from amdgpu_discovery.value import Value


class HealthLimits(Value):
    """Limits that count instead of the driver's own; 0 is the driver's.

    Attributes:
        bad_pages: How many pages of its memory may be retired before a GPU is sick.
        temperature: From how many degrees Celsius on it is suspect.
    """

    bad_pages: int = 0
    temperature: int = 0


NO_LIMITS = HealthLimits()
