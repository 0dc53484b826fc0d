"""`python -m amd_gpu_sharing` is the same as `amd-gpu-sharing`."""

from __future__ import annotations

from amd_gpu_sharing.cli.program import main

if __name__ == "__main__":
    main()
