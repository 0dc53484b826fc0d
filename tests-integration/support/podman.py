"""A separate Podman: its images, containers and settings are in a directory, and it changes nothing else."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from support.docker import IMAGE, EngineError

SETTINGS = """[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
netns = "none"
# Podman's own default is more than the root of a virtual machine may give.
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
"""

BOOTED_SETTINGS = """\
[containers]
default_sysctls = []
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
pids_limit = 0
[engine]
events_logger = "file"
infra_image = "pause:local"
"""
STORAGE = """\
[storage]
driver = "vfs"
runroot = "/run/containers/storage"
graphroot = "/var/lib/containers/storage"
"""
# For Podman in a system that boots. The root of a virtual machine may not grant the default limits of containers, and
# /proc/sys is read-only there.
BOOTED_SYSTEM_FILES = {
    "/etc/containers/containers.conf": BOOTED_SETTINGS,
    "/etc/containers/policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}',
    "/etc/containers/storage.conf": STORAGE,
}


class Podman:
    """Podman as root, with amd-container-runtime as its runtime; call it as the `podman` command."""

    def __init__(self, program: Path, directory: Path, runtime: Path, host_root: str) -> None:
        (directory / "containers.conf").write_text(SETTINGS)
        (directory / "policy.json").write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
        self.runtime = os.fspath(_on_host(runtime, host_root, directory / "runtime"))
        self._words = [
            *(program, "--root", directory / "storage", "--runroot", _short_directory(), "--storage-driver=vfs"),
            *("--tmpdir", directory / "tmp", "--runtime", self.runtime),
        ]
        self.environment = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": os.fspath(directory),
            "CONTAINERS_CONF": os.fspath(directory / "containers.conf"),
            # Podman 5 warns about cgroup v1 at each command.
            "PODMAN_IGNORE_CGROUPSV1_WARNING": "1",
        }

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `podman` command to its end and return its result; EngineError if it fails and `check` is true."""
        ended = subprocess.run(
            self.command(*words),
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if check and ended.returncode != 0:
            raise EngineError(f"podman {' '.join(words)}: {ended.stderr}")
        return ended

    def command(self, *words: str) -> list[str]:
        """Return the words of a `podman` command, for a program that runs it with `environment`."""
        return [*map(str, self._words), *words]

    def import_image(self, archive: Path) -> None:
        """Import an image from a packed root file system, without a registry."""
        self("import", "--quiet", "--change", 'CMD ["sh"]', os.fspath(archive), IMAGE)


def _short_directory() -> Path:
    """Return a directory for the runtime state; Podman refuses a path of more than 50 characters."""
    directory = Path(tempfile.mkdtemp(prefix="amd-podman-", dir="/tmp"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _on_host(runtime: Path, host_root: str, program: Path) -> Path:
    """Write a runtime for a simulated host, because conmon calls it without the caller's environment."""
    program.write_text(f'#!/bin/sh\nAMD_CTK_HOST_ROOT="{host_root}" exec "{runtime}" "$@"\n')
    program.chmod(0o755)
    return program
