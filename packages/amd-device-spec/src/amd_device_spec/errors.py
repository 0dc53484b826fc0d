"""What can be wrong with a spec."""

from __future__ import annotations

from amdgpu_discovery.errors import SpecError

__all__ = ["SpecError"]
