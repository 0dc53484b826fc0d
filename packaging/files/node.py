"""Put the toolkit of this container onto the host whose root is mounted at /host, or remove it from there.

- install: copy the toolkit to /opt/amd-container-toolkit of the host, configure engines, and write the CDI spec
- remove: undo that, and leave nothing
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from enum import Enum
from pathlib import Path
from typing import Annotated

# The entry point reads no site directories. The toolkit's packages are beside this file.
sys.path.append(f"{Path(__file__).parent}/current/python")

import typer

HOST = Path("/host")
PREFIX = Path("/opt/amd-container-toolkit")
AMD_CTK = PREFIX / "bin/amd-ctk"
# The toolkit's state on a host. amd-ctk itself undoes changes in engines' files.
STATE = ("etc/amd-container-toolkit", "var/lib/amd-container-toolkit", "run/amd-container-toolkit")
LOGS = "amd-container-runtime.log*"
COPIES = "*.before-amd-ctk"
ENGINE_DIRECTORIES = ("etc/docker", "etc/containers", "etc/containerd", "etc/crio", "etc/slurm")
# In a chroot, systemctl does nothing without SYSTEMD_IGNORE_CHROOT.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "SYSTEMD_IGNORE_CHROOT": "1",
}
# For renameat2: exchange two names atomically, so that the runtime is never missing.
AT_FDCWD, RENAME_EXCHANGE = -100, 2


app = typer.Typer(
    help="Install the container toolkit for AMD GPUs on a host.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Engine(str, Enum):
    """The engines of `amd-ctk runtime configure`."""

    DOCKER = "docker"
    PODMAN = "podman"
    CONTAINERD = "containerd"
    CRIO = "crio"
    SLURM = "slurm"


@app.command("install")
def run_install(
    engine: Annotated[list[Engine] | None, typer.Option(help="An engine to configure; may be repeated.")] = None,
    *,
    restart: Annotated[bool, typer.Option("--restart", help="Restart these engines where that is needed.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Stay, and keep the CDI spec up to date.")] = False,
) -> None:
    """Install or upgrade the toolkit on the host mounted at /host."""
    require_host()
    archive = pack()
    os.chroot(HOST)
    sys.exit(install(archive, [each.value for each in engine or ()], restarts=restart, watches=watch))


@app.command("remove")
def run_remove() -> None:
    """Remove the toolkit and everything that it configured."""
    require_host()
    os.chroot(HOST)
    sys.exit(remove())


def require_host() -> None:
    """Exit if no host is mounted, in which case the directory of the image is empty."""
    if not any(HOST.iterdir()):
        sys.exit(
            "amd-container-toolkit: the host's root is not mounted at /host (start the container with --volume=/:/host)"
        )


def pack() -> int:
    """Return a file in memory with the toolkit of this container, which stays open after a change of root."""
    memory = os.memfd_create("toolkit")
    with os.fdopen(memory, "wb", closefd=False) as file, tarfile.open(fileobj=file, mode="w|") as archive:
        archive.add(PREFIX, arcname=PREFIX.name)
    return memory


def install(archive: int, engines: list[str], *, restarts: bool, watches: bool) -> int:
    """Install the toolkit or replace another version, and configure the requested engines."""
    os.chdir("/")
    PREFIX.parent.mkdir(parents=True, exist_ok=True)
    replace(archive)
    for engine in engines:
        if code := amd_ctk("runtime", "configure", f"--runtime={engine}", *(["--restart"] if restarts else [])):
            return code
    # If the driver comes later, the next call or --watch writes the spec.
    amd_ctk("cdi", "generate")
    return watch() if watches else 0


def replace(archive: int) -> None:
    """Unpack beside the installed version, then exchange the two."""
    directory = os.open(PREFIX.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Two containers may do this at once. Closing the descriptor releases the lock.
        fcntl.flock(directory, fcntl.LOCK_EX)
        beside = PREFIX.with_name(f".{PREFIX.name}.new")
        shutil.rmtree(beside, ignore_errors=True)
        os.lseek(archive, 0, os.SEEK_SET)
        with os.fdopen(archive, "rb") as file, tarfile.open(fileobj=file, mode="r|") as members:
            # This process packed it from its own image.
            members.extractall(beside)  # noqa: S202
        exchange(beside / PREFIX.name, PREFIX)
        shutil.rmtree(beside)
    finally:
        os.close(directory)


def exchange(new: Path, old: Path) -> None:
    """Exchange two directories; if the file system cannot, rename one after the other."""
    if not old.exists():
        new.rename(old)
        return
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(AT_FDCWD, os.fsencode(new), AT_FDCWD, os.fsencode(old), RENAME_EXCHANGE):
        aside = new.with_name("old")
        old.rename(aside)
        new.rename(old)


def watch() -> int:
    """Keep the CDI spec up to date until the container is stopped."""
    process = subprocess.Popen([AMD_CTK, "cdi", "watch"], env=ENVIRONMENT)
    # The first process of a container receives only signals for which it has handlers.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.terminate())
    code = process.wait()
    return 0 if code == -signal.SIGTERM else code


def remove() -> int:
    """Undo the configuration of engines, and remove every file of the toolkit."""
    os.chdir("/")
    if not PREFIX.exists():
        print(f"{PREFIX} does not exist: nothing to remove")
        return 0
    code = amd_ctk("runtime", "configure", "--all", "--remove", "--no-validate") or amd_ctk("cdi", "remove", "--all")
    if code:
        return code
    for path in (*(Path("/", name) for name in STATE), PREFIX):
        shutil.rmtree(path, ignore_errors=True)
    for path in (*Path("/var/log").glob(LOGS), *_copies()):
        path.unlink()
    print(f"Removed {PREFIX}; restart the engines that were configured")
    return 0


def amd_ctk(*words: str) -> int:
    """Run the amd-ctk that is installed on the host, in the host's environment; return its exit code."""
    return subprocess.run([AMD_CTK, *words], env=ENVIRONMENT, check=False).returncode


def _copies() -> list[Path]:
    return [copy for name in ENGINE_DIRECTORIES for copy in Path("/", name).rglob(COPIES)]


if __name__ == "__main__":
    app(prog_name="amd-container-toolkit")
