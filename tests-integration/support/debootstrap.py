"""Make root file systems of Debian releases, from the archive that this machine uses for its packages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.installed import engine_program

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Debian's scripts for releases are all links to one; older versions of debootstrap lack that of the newest release.
SCRIPTS = Path("/usr/share/debootstrap/scripts")
ANY_SCRIPT = SCRIPTS / "sid"
# debootstrap mounts /proc in its target. If it is interrupted, the mount ends with it, and it ends with its caller.
UNSHARE_COMMAND = ("unshare", "--mount-proc", "--pid", "--fork", "--kill-child=SIGKILL")
# In seconds, for a busy machine and a slow archive.
LONGEST_INSTALLATION = 3600


@contextmanager
def without_time_limit() -> Iterator[None]:
    """Stop the clock of pytest-timeout, because the first test that needs a root makes it for all."""
    left, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)


@without_time_limit()
def bootstrap(suite: str, root: Path, *packages: str) -> None:
    """Make a minimal system of a release with these packages and this machine's network settings."""
    script = SCRIPTS / suite
    include = [f"--include={','.join(packages)}"] if packages else []
    words = ["--variant=minbase", *include, f"--keyring={KEYRING}", suite, os.fspath(root), archive()]
    made = subprocess.run(
        [*UNSHARE_COMMAND, engine_program("debootstrap"), *words, script if script.exists() else ANY_SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONGEST_INSTALLATION,
        check=False,
    )
    assert made.returncode == 0, made.stdout[-3000:]
    copy_network(root)


def copy_network(root: Path) -> None:
    """Copy this machine's current network settings into a system."""
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)


def archive() -> str:
    """Return the archive from which this machine installs Debian packages."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    return min((uri for uri in answer if uri.rstrip("/").endswith("/debian")), default="http://deb.debian.org/debian")
