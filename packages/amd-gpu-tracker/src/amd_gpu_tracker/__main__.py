"""`python -m amd_gpu_tracker` is amd-gpu-tracker."""

from __future__ import annotations

from amd_gpu_tracker.cli import main

main()
