"""`python -m amdgpu_simulator` is the same as `amdgpu-simulator`."""

from __future__ import annotations

from amdgpu_simulator.cli import main

if __name__ == "__main__":
    main()
