"""Simulated hosts: a directory of plain files that every program of the project takes for a GPU server.

Build one from a built-in profile, or from one that you changed: `build_host(directory, "mi300x-8")`,
`build_host(directory, load_profile("mi210-4").with_gpu(2, pci_unique_id=0))`.
"""

from __future__ import annotations

from amdgpu_discovery.simulate.build import build_host, hide_gpus
from amdgpu_discovery.simulate.profile import Profile, SimulatedGpu
from amdgpu_discovery.simulate.profile_json import gpu_model, load_profile, profile_names
from amdgpu_discovery.simulate.random_profile import random_profile
from amdgpu_discovery.simulate.record import record_profile

__all__ = [
    "Profile",
    "SimulatedGpu",
    "build_host",
    "gpu_model",
    "hide_gpus",
    "load_profile",
    "profile_names",
    "random_profile",
    "record_profile",
]
