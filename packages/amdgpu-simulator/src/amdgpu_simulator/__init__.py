"""Simulated hosts: a directory of plain files that every program of the project takes for a GPU server.

    from amdgpu_simulator import build_host, load_profile

    build_host(directory, "mi300x-8")
    build_host(directory, load_profile("mi210-4").with_gpu(2, pci_unique_id=0))

The names on this page stay the same from one version to the next. The modules behind them may change.
"""

from __future__ import annotations

from amdgpu_discovery import lazy_exports
from amdgpu_discovery.recording.profile import Profile as Profile
from amdgpu_discovery.recording.profile import SimulatedGpu as SimulatedGpu
from amdgpu_simulator.build import build_host, hide_gpus
from amdgpu_simulator.profile_files import gpu_model as gpu_model
from amdgpu_simulator.profile_files import load_profile, profile_names
from amdgpu_simulator.random_profile import random_profile as random_profile

__all__ = [
    "build_host",
    "hide_gpus",
    "load_profile",
    "profile_names",
]
__getattr__ = lazy_exports(__name__, {})
