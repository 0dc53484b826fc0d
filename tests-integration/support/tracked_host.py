"""A simulated host with an enabled GPU Tracker, all of whose GPUs are exclusive, and `amd-ctk` for it."""

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

# In seconds; long enough for a machine that does much else.
PATIENCE = 180.0


class TrackedHost:
    """Commands for a host, the containers of its GPUs, and jobs that are ended with `end_jobs`.

    Commands have `environment`, to which a test adds what an engine's client needs.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.environment = {**os.environ, "AMD_CTK_HOST_ROOT": host.root}
        self._jobs: list[subprocess.Popen[str]] = []
        self.ctk("gpu-tracker", "enable")
        self.ctk("gpu-tracker", "all", "exclusive")

    def ctk(self, *words: str) -> str:
        """Run amd-ctk, which has to succeed, and return what it printed."""
        return self.run_job(*words, check=True).stdout

    def run_job(self, *words: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        """Run amd-ctk to its end; what it said about the simulated host is left out."""
        ended = subprocess.run(
            [our_program("amd-ctk"), *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=check,
        )
        ended.stderr = without_note(ended.stderr)
        return ended

    def start_job(self, *words: str) -> subprocess.Popen[str]:
        """Start amd-ctk and do not wait for its end."""
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
        """End every job that was started."""
        while self._jobs:
            job = self._jobs.pop()
            job.kill()
            job.communicate()

    def users(self) -> dict[int, list[str]]:
        """Return the containers and programs that have each GPU that anybody has."""
        gpus = json.loads(self.ctk("gpu-tracker", "status", "--json"))["gpus"]
        return {gpu["number"]: [use["container_id"] for use in gpu["containers"]] for gpu in gpus if gpu["containers"]}

    def waiting(self) -> list[str]:
        """Return the names of the jobs that wait."""
        return [job["name"] for job in json.loads(self.ctk("queue", "list", "--json"))["jobs"]]


def wait_until(condition: Callable[[], bool]) -> None:
    """Repeat a look until it is true."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "what was waited for did not come"
        time.sleep(0.1)
