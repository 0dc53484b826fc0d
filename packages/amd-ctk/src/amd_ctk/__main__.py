"""`python -m amd_ctk` is amd-ctk."""

from __future__ import annotations

from amd_ctk.cli import main

main()
