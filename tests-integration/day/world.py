"""A host with two engines and jobs, and who has which GPU on it: by /proc, and never by what the tracker says."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from support.docker import IMAGE, TIMEOUT, Docker
from support.installed import our_program
from support.podman import Podman

EXCLUSIVE = range(6)
# In the environment of every first process, by which it is found again.
MARK = "DAY_ID"
SLEEP = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1; done")


class World:
    """Eight GPUs, of which the last two are shared; containers of Docker and Podman, and jobs of `amd-ctk run`."""

    def __init__(self, host: Host, docker: Docker, podman: Podman) -> None:
        self.host = host
        self.docker = docker
        self.podman = podman
        self.jobs: dict[str, subprocess.Popen[bytes]] = {}
        self._minors = {gpu.number: gpu.render_minor for gpu in locate_gpus(host)}
        Tracker(host).enable()
        Tracker(host).set_accessibility(f"{EXCLUSIVE[0]}-{EXCLUSIVE[-1]}", exclusive=True)

    def run(
        self, engine: Docker | Podman, name: str, request: str, *options: str, command: tuple[str, ...] = SLEEP
    ) -> bool:
        """Start a container; return whether it was given what it asked for."""
        asking = ("--detach", f"--name={name}", f"--env={MARK}={name}", f"--env=AMD_VISIBLE_DEVICES={request}")
        runtime = ("--runtime=amd",) if isinstance(engine, Docker) else ()
        ended = engine("run", *asking, *runtime, *options, IMAGE, *command, check=False)
        if ended.returncode:
            assert " GPU" in ended.stderr, ended.stderr
            engine("rm", "--force", name, check=False)
        return ended.returncode == 0

    def start_job(self, name: str, request: str) -> None:
        """Start a job that waits until it has its GPUs."""
        words = [
            our_program("amd-ctk"),
            "run",
            f"--gpus={request}",
            "--wait",
            f"--name={name}",
            "--",
            "sleep",
            "100000",
        ]
        environment = {**os.environ, "AMD_CTK_HOST_ROOT": self.host.root, MARK: name}
        self.jobs[name] = subprocess.Popen(
            words, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def end_job(self, name: str, number: int) -> None:
        """End a job by a signal."""
        job = self.jobs.pop(name)
        job.send_signal(number)
        job.wait(TIMEOUT)

    def kill_docker(self) -> None:
        """Kill both daemons, and start them again."""
        self.docker.dockerd.kill()
        self.docker.containerd.kill()
        self.docker.halt()
        self.docker.start()

    def holders(self) -> dict[str, set[int]]:
        """Return the GPUs of each container and job that has a living process, by its name."""
        found: dict[str, set[int]] = {}
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                environment = _environment(process)
                name = environment.get(MARK)
                if name in self.jobs:
                    found.setdefault(name, set()).update(_gpus_of_job(environment))
                elif name is not None:
                    found.setdefault(name, set()).update(self._gpus_inside(process))
        return found

    def first_process(self, name: str) -> int | None:
        """Return the first process of a container, None where it has none."""
        of_container = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if _environment(process).get(MARK) == name:
                    of_container.append(int(process.name))
        return min(of_container, default=None)

    def _gpus_inside(self, process: Path) -> Iterator[int]:
        names = os.listdir(process / "root/dev/dri") if (process / "root/dev/dri").is_dir() else []
        minors = {int(name.removeprefix("renderD")) for name in names if name.startswith("renderD")}
        return (number for number, minor in self._minors.items() if minor in minors)

    def minor_of(self, number: int) -> int:
        """Return the minor number of a GPU's render node."""
        return self._minors[number]

    def remove_all(self) -> None:
        """End everything."""
        for name in list(self.jobs):
            self.end_job(name, 9)
        for engine in (self.docker, self.podman):
            for name in engine("ps", "--all", "--quiet").stdout.split():
                engine("rm", "--force", name, check=False)


def wait_until(condition: object, what: str) -> None:
    """Wait for something that an engine does in its own time."""
    until = time.monotonic() + TIMEOUT
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, what
        time.sleep(0.05)


def _environment(process: Path) -> dict[str, str]:
    entries = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _gpus_of_job(environment: dict[str, str]) -> Iterator[int]:
    """Give the GPUs of a job; one that waits has no token yet."""
    if "AMD_CTK_RESERVATION" in environment:
        yield from map(int, environment["AMD_VISIBLE_DEVICES"].split(","))
