"""The administrator's limits for the health of GPUs, in place of the driver's."""

from __future__ import annotations

from amdgpu_discovery.value import Value


class HealthLimits(Value):
    """Limits in place of the driver's own; 0 keeps the driver's.

    Attributes:
        bad_pages: How many pages of its memory may be retired before a GPU is sick.
        temperature: The temperature in degrees Celsius from which a GPU is suspect.
    """

    bad_pages: int = 0
    temperature: int = 0


NO_LIMITS = HealthLimits()
