"""Put the toolkit of this container onto the host whose root is mounted at /host, or remove it from there.

install   copies the toolkit to /opt/amd-container-toolkit of the host, configures engines, writes the CDI spec
remove    undoes that, and leaves nothing
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

HOST = Path("/host")
PREFIX = Path("/opt/amd-container-toolkit")
AMD_CTK = PREFIX / "bin/amd-ctk"
# What the toolkit keeps on a host; engines' files are amd-ctk's to undo.
STATE = ("etc/amd-container-toolkit", "var/lib/amd-container-toolkit", "run/amd-container-toolkit")
LOGS = "amd-container-runtime.log*"
COPIES = "*.before-amd-ctk"
ENGINE_DIRECTORIES = ("etc/docker", "etc/containers", "etc/containerd", "etc/crio", "etc/slurm")
ENGINES = ("docker", "podman", "containerd", "crio", "slurm")
# systemctl does nothing in a chroot unless it is told that the host is meant.
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG": "C.UTF-8",
    "SYSTEMD_IGNORE_CHROOT": "1",
}
# Of renameat2: two names change places at once, so that there is no moment without a runtime.
AT_FDCWD, RENAME_EXCHANGE = -100, 2


def main(words: Sequence[str]) -> int:
    """Do what the command line says, and return the exit code."""
    arguments = _parse(words)
    # The directory in the image is empty.
    if not any(HOST.iterdir()):
        return _refuse("the host's root is not mounted at /host (start the container with --volume=/:/host)")
    if arguments.command == "remove":
        os.chroot(HOST)
        return remove()
    archive = pack()
    os.chroot(HOST)
    return install(archive, arguments)


def pack() -> int:
    """Return a file in memory with the toolkit of this container; it stays open in another root."""
    memory = os.memfd_create("toolkit")
    with os.fdopen(memory, "wb", closefd=False) as file, tarfile.open(fileobj=file, mode="w|") as archive:
        archive.add(PREFIX, arcname=PREFIX.name)
    return memory


def install(archive: int, arguments: argparse.Namespace) -> int:
    """Put the toolkit in its place, or in the place of another version, and configure what is asked for."""
    os.chdir("/")
    PREFIX.parent.mkdir(parents=True, exist_ok=True)
    replace(archive)
    for engine in arguments.engine:
        restart = ["--restart"] if arguments.restart else []
        if code := amd_ctk("runtime", "configure", f"--runtime={engine}", *restart):
            return code
    # A host whose driver comes later gets its spec with the next call, or by --watch.
    amd_ctk("cdi", "generate")
    return watch() if arguments.watch else 0


def replace(archive: int) -> None:
    """Unpack beside the place, then change places."""
    directory = os.open(PREFIX.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Two containers may do this at once; the lock is gone with the descriptor.
        fcntl.flock(directory, fcntl.LOCK_EX)
        beside = PREFIX.with_name(f".{PREFIX.name}.new")
        shutil.rmtree(beside, ignore_errors=True)
        os.lseek(archive, 0, os.SEEK_SET)
        with os.fdopen(archive, "rb") as file, tarfile.open(fileobj=file, mode="r|") as members:
            # Packed by this very process from its own image.
            members.extractall(beside)  # noqa: S202
        exchange(beside / PREFIX.name, PREFIX)
        shutil.rmtree(beside)
    finally:
        os.close(directory)


def exchange(new: Path, old: Path) -> None:
    """Let two directories change places; where the file system cannot, one after the other."""
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
    # The first process of a container is sent no signal that it does not ask for.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: process.terminate())
    code = process.wait()
    return 0 if code == -signal.SIGTERM else code


def remove() -> int:
    """Undo what was configured, and remove every file of the toolkit."""
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
    """Run the amd-ctk that is on the host, as a user of the host would; return its exit code."""
    return subprocess.run([AMD_CTK, *words], env=ENVIRONMENT, check=False).returncode


def _copies() -> list[Path]:
    return [copy for name in ENGINE_DIRECTORIES for copy in Path("/", name).rglob(COPIES)]


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "amd-container-toolkit", description="Install the AMD Container Toolkit on a host."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="install|remove")
    adding = commands.add_parser("install", help="install or upgrade the toolkit on the host mounted at /host")
    names = ", ".join(ENGINES)
    adding.add_argument("--engine", action="append", default=[], choices=ENGINES, metavar="ENGINE", help=names)
    adding.add_argument("--restart", action="store_true", help="restart these engines where that is needed")
    adding.add_argument("--watch", action="store_true", help="stay, and keep the CDI spec up to date")
    commands.add_parser("remove", help="remove the toolkit and everything that it configured")
    return parser.parse_args(words)


def _refuse(message: str) -> int:
    print(f"amd-container-toolkit: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
