"""The command line of the container toolkit for AMD GPUs: amd-ctk.

This package is a program. It exports nothing but its version.
"""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

__getattr__ = lazy_exports(__name__, {})
