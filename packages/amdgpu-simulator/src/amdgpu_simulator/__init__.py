"""Simulated hosts: a directory of plain files that every program of the project takes for a GPU server.

    from amdgpu_simulator import build_host, load_profile

    build_host(directory, "mi300x-8")
    build_host(directory, load_profile("mi210-4").with_gpu(2, pci_unique_id=0))

The names on this page stay the same from one version to the next. The modules behind them may change.
"""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.recording.profile import Profile as Profile
    from amdgpu_simulator.hosts.build import build_host, hide_gpus
    from amdgpu_simulator.profile_files import gpu_model as gpu_model
    from amdgpu_simulator.profile_files import load_profile, profile_names

__all__ = [
    "build_host",
    "hide_gpus",
    "load_profile",
    "profile_names",
]
# pytest loads the plugin of this package at each start.
__getattr__ = lazy_exports(
    __name__,
    {
        "Profile": "profile_files",
        "build_host": "hosts.build",
        "gpu_model": "profile_files",
        "hide_gpus": "hosts.build",
        "load_profile": "profile_files",
        "profile_names": "profile_files",
    },
)
