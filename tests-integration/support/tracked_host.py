"""A simulated host with an enabled GPU Tracker and only exclusive GPUs, and `amd-ctk` for it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import TYPE_CHECKING

from support.installed import our_program
from support.simulated import without_note

if TYPE_CHECKING:
    from collections.abc import Callable

    from amdgpu_discovery.host import Host

# In seconds; long enough for a busy machine.
TIMEOUT = 180.0


class TrackedHost:
    """Commands for a host, the containers of its GPUs, and jobs, which `end_jobs` ends.

    Commands run with `environment`, to which a test adds variables for an engine's client.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
        self._jobs: list[subprocess.Popen[str]] = []
        self.ctk("gpu-tracker", "enable")
        self.ctk("gpu-tracker", "all", "exclusive")

    def ctk(self, *words: str) -> str:
        """Run amd-ctk, which must succeed, and return its output."""
        return self.run_job(*words, check=True).stdout

    def run_job(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Run amd-ctk to its end, without its note about the simulated host."""
        ended = subprocess.run(
            [our_program("amd-ctk"), *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=check,
        )
        ended.stderr = without_note(ended.stderr)
        return ended

    def start_job(self, *words: str) -> subprocess.Popen[str]:
        """Start amd-ctk without waiting for its end."""
        job = subprocess.Popen(
            [our_program("amd-ctk"), *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._jobs.append(job)
        return job

    def end_jobs(self) -> None:
        """End all jobs that were started."""
        while self._jobs:
            job = self._jobs.pop()
            job.kill()
            job.communicate()

    def users(self) -> dict[int, list[str]]:
        """Return the containers and programs of each GPU that is in use."""
        gpus = json.loads(self.ctk("gpu-tracker", "status", "--json"))["gpus"]
        return {gpu["number"]: [use["container_id"] for use in gpu["containers"]] for gpu in gpus if gpu["containers"]}

    def waiting(self) -> list[str]:
        """Return the names of the waiting jobs."""
        return [job["name"] for job in json.loads(self.ctk("queue", "list", "--json"))["jobs"]]


def wait_until(condition: Callable[[], bool]) -> None:
    """Repeat a check until it is true."""
    until = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.1)
