"""Run amd-ctk as `python -m amd_ctk`."""

from __future__ import annotations

from amd_ctk.cli import main

main()
