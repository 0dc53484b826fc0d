"""Simulated hosts: a directory of plain files that every program of the project takes for a GPU server."""

from __future__ import annotations

from amdgpu_discovery.simulate.build import build_host
from amdgpu_discovery.simulate.profile import Profile
from amdgpu_discovery.simulate.profile_files import load_profile, profile_names

__all__ = ["Profile", "build_host", "load_profile", "profile_names"]
