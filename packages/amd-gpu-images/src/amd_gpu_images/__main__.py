"""`python -m amd_gpu_images` is the same as `amd-gpu-images`."""

from __future__ import annotations

from amd_gpu_images.cli import main

if __name__ == "__main__":
    main()
