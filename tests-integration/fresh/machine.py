"""A machine on which nobody has worked yet: a Debian release as debootstrap makes it, and a clone of this project."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from fresh.access import write_access
from support.box import KERNEL, PATH
from support.debootstrap import bootstrap, copy_network
from support.shell import Shell

KEPT_IN = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "amd-container-toolkit" / "fresh"
SOURCE = Path(__file__).resolve().parents[2]
CHECKOUT = "/root/checkout"
# In seconds; the packages of four engines come over the network.
LONGEST_COMMAND = 1200
# $1: the directory that becomes the root; the rest: what is run there. It has the network of this machine, and mounts
# that are shared, as systemd makes them.
RUN = (
    r"""
set -e
root=$1
shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
"""
    + KERNEL
    + r"""
mount -t tmpfs -o mode=755,nosuid,nodev run "$root/run"
mkdir -p "$root/old"
cd "$root"
pivot_root . old
exec chroot . /bin/sh -c 'umount -l /old; rmdir /old; mount --make-rshared /; cd "$0" && exec "$@"' "$@"
"""
)
# Every file and directory that is none of the kernel's, of the checkout's or of a compiled module's.
LIST_FILES = (
    "find / ( -path /proc -o -path /sys -o -path /dev -o -path {checkout} -o -name __pycache__ ) -prune -o -print"
)


class Machine:
    """One machine in a directory; each `run` starts it, and nothing runs on it afterwards."""

    def __init__(self, suite: str, root: Path) -> None:
        subprocess.run(["cp", "--archive", base(suite, "systemd"), root], check=True)
        self._root = root
        copy_network(root)
        self._environment = write_access(root)
        copy_sources(root / CHECKOUT.lstrip("/"))

    def run(self, *words: str, directory: str = CHECKOUT) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever that is; both its streams are in `stdout`."""
        return subprocess.run(
            [*self._enter(directory), *words],
            env=self._variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def shell(self) -> Shell:
        """Return a shell that starts it, for commands that follow each other; a command may install packages."""
        return Shell(Path("/"), self._variables(), enter=self._enter(CHECKOUT), patience=LONGEST_COMMAND)

    def files(self) -> set[str]:
        """Return all paths outside the checkout."""
        return set(self.run(*LIST_FILES.format(checkout=CHECKOUT).split()).stdout.splitlines())

    def enabled_units(self) -> set[str]:
        """Return what would start at boot."""
        listed = self.run("systemctl", "list-unit-files", "--state=enabled", "--no-legend", "--plain").stdout
        return {line.split()[0] for line in listed.splitlines()}

    def remove(self) -> None:
        """Remove all that it has on the disk."""
        shutil.rmtree(self._root)

    def _enter(self, directory: str) -> list[str]:
        unshare = ("unshare", "--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child=SIGKILL")
        return [*unshare, "sh", "-c", RUN, "sh", os.fspath(self._root), directory]

    def _variables(self) -> dict[str, str]:
        return {**self._environment, "PATH": PATH, "HOME": "/root", "LC_ALL": "C.UTF-8", "CI": "true"}


def base(suite: str, *packages: str) -> Path:
    """Return the smallest system of a release with these packages, made once; it must not be written to."""
    name = "-".join((suite, *packages))
    root, done = KEPT_IN / name, KEPT_IN / f"{name}.done"
    if not done.exists():
        KEPT_IN.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(root, ignore_errors=True)
        bootstrap(suite, root, *packages)
        done.touch()
    return root


def copy_sources(target: Path) -> None:
    """Clone this checkout, and commit there what is not committed here."""
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", SOURCE, target], check=True)
    subprocess.run(["git", "-C", target, "reset", "--quiet"], check=True)
    listed = subprocess.run(
        ["git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        # What is removed and not committed is still listed.
        if (SOURCE / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, target / name)
    subprocess.run(["git", "-C", target, "add", "--all"], check=True)
    author = ("-c", "user.name=test", "-c", "user.email=test@localhost")
    subprocess.run(["git", "-C", target, *author, "commit", "--quiet", "--allow-empty", "-m", "as it is"], check=True)
