"""A simulated server for tests: programs run on it, and its GPUs break."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from amdgpu_simulator.hosts.build import build_host
from amdgpu_simulator.runs.breaking import break_gpu

TRY = "from amdgpu_simulator.runs.namespace import enter_namespace; enter_namespace()"


class SimulatedServer:
    """A server in a directory.

    Attributes:
        profile: The name or file of its profile.
        path: Its root directory, for libraries that take one: `path/"sys"`, `path/"dev"`.
    """

    def __init__(self, path: Path, profile: str, *, refuse: Callable[[str], object]) -> None:
        """Build the server; `refuse` is called with the reason where `run` is impossible. Raises ProfileError."""
        self.profile = profile
        self.path = path
        self._refuse = refuse
        self._host = build_host(path, profile)

    def run(self, words: Sequence[str | os.PathLike[str]], **options: Any) -> subprocess.CompletedProcess[Any]:
        """Run a program for which the server lies over this machine's /sys and /dev.

        `options` are those of subprocess.run. Programs that need the driver fail as they do without one.
        """
        if obstacle := find_obstacle():
            self._refuse(obstacle)
        command = [
            sys.executable,
            "-m",
            "amdgpu_simulator.runs.run_on_copy",
            os.fspath(self.path),
            self.profile,
            *words,
        ]
        options.setdefault("check", False)
        return subprocess.run(command, **options)  # noqa: PLW1510 - the test may say so

    def break_(self, gpu: int | str, fault: str) -> None:
        """Let a fault happen to a GPU, for programs that start from now on. Raises CannotBreak."""
        break_gpu(self._host, int(gpu), fault)


@cache
def find_obstacle() -> str:
    """Return why no program can run on a simulated server here, "" if it can."""
    # A process with threads, as pytest may be, cannot enter a user namespace.
    tried = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, check=False)
    return tried.stderr.strip().splitlines()[-1] if tried.returncode else ""
