"""Record a machine as a profile, from which amdgpu-simulator builds a host that looks the same."""

from __future__ import annotations

from amdgpu_discovery.recording.profile import Profile
from amdgpu_discovery.recording.profile_json import format_profile
from amdgpu_discovery.recording.record import record_profile

__all__ = ["Profile", "format_profile", "record_profile"]
