"""Run amd-ctk on a simulated host, without the note that programs print only on simulated hosts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from support.installed import our_program

NOTE = "Working on the simulated host "


def without_note(text: str) -> str:
    """Return the output of a program without the note about a simulated host."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith(NOTE))


def run_amd_ctk(host_root: str, *words: str, environment: Mapping[str, str] = os.environ) -> str:
    """Run amd-ctk for the simulated host in this directory; return all its output."""
    ended = subprocess.run(
        [our_program("amd-ctk"), *words],
        env={**environment, "AMD_CTK_HOST_ROOT": host_root},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return without_note(ended.stdout)
