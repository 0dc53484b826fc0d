"""A container in which nobody has worked yet: a Debian release as debootstrap makes it, and a clone of this project.

A real engine makes it with its default profile, as `docker run -it debian:13` does: few capabilities, a seccomp filter,
and read-only cgroups. It has the network of this machine.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from fresh.access import write_access
from fresh.machine import CHECKOUT, base, copy_sources
from support.docker import Docker
from support.installed import engine_program, our_program
from support.podman import Podman

NAME = "fresh"
# For an engine that copies a root file system.
PATIENCE = 600
# Simulated hosts are many small files; on the disk of a container they take as long as the tests themselves.
TEMPORARY_FILES = "--tmpfs=/tmp:exec,dev,suid"


class OnlineDocker(Docker):
    """A Docker whose containers may use the network of this machine."""

    under: tuple[str, ...] = ()

    def command(self, *words: str) -> list[str]:
        """Return the words of a `docker` command."""
        return ["docker", "-H", f"unix://{self.socket}", *words]


class Container:
    """One container; each `run` is a command in it."""

    def __init__(self, engine: OnlineDocker | Podman, suite: str, directory: Path) -> None:
        self._engine = engine
        root = directory / "root"
        subprocess.run(["cp", "--archive", base(suite), root], check=True)
        environment = write_access(root)
        copy_sources(root / CHECKOUT.lstrip("/"))
        archive = directory / "image.tar"
        subprocess.run(["tar", "--create", f"--directory={root}", f"--file={archive}", "."], check=True)
        shutil.rmtree(root)
        self._call("import", os.fspath(archive), NAME)
        archive.unlink()
        variables = {**environment, "HOME": "/root", "LC_ALL": "C.UTF-8", "CI": "true"}
        given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        options = ("--detach", "--network=host", TEMPORARY_FILES, f"--name={NAME}", *given)
        self._call("run", *options, NAME, "sleep", "infinity")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever that is; both its streams are in `stdout`."""
        return self._start(["exec", "--workdir", CHECKOUT, NAME, *words])

    def remove(self) -> None:
        """Remove the container and its image."""
        self._call("rm", "--force", NAME)
        self._call("rmi", "--force", NAME)

    def _call(self, *words: str) -> None:
        ended = self._start(words, timeout=PATIENCE)
        assert ended.returncode == 0, ended.stdout

    def _start(self, words: Sequence[str], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._engine.command(*words),
            env=self._engine.environment if isinstance(self._engine, Podman) else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )


def make_docker() -> OnlineDocker:
    """Return a Docker of its own that runs; `stop` ends it."""
    # Without a name, Docker takes the best driver for the file system: in a container, overlay2 may be impossible.
    docker = OnlineDocker(our_program("amd-container-runtime"), "/", "/var/tmp", **{"storage-driver": ""})
    docker.start()
    return docker


def make_podman(directory: Path) -> Podman:
    """Return a Podman with all its files in a directory."""
    return Podman(engine_program("podman"), directory, our_program("amd-container-runtime"), "/")
