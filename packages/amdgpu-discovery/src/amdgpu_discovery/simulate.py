"""Where simulated hosts were; each name answers with an ImportError that says where it is now."""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

_SIMULATOR = (
    *("Profile", "SimulatedGpu", "build_host", "gpu_model", "hide_gpus"),
    *("load_profile", "profile_names", "random_profile"),
)
_MOVED = {**dict.fromkeys(_SIMULATOR, "amdgpu_simulator"), "record_profile": "amdgpu_discovery.recording"}

__getattr__ = lazy_exports(__name__, {}, _MOVED)
