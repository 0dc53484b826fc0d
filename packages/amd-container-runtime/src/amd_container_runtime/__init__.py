"""The OCI runtime in front of runc that gives containers the AMD GPUs they ask for.

It is a program, `amd-container-runtime`. Only its version can be imported.
"""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

__getattr__ = lazy_exports(__name__, {})
