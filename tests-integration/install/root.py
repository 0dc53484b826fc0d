"""Debian root file systems, made once with debootstrap and kept; tests run on overlays over them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from support.debootstrap import bootstrap, without_time_limit

KEPT_IN = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "amd-container-toolkit" / "systems"
# Python is for our packages to ask for; it is fetched because tests have no network.
FETCHED = ("python3", "logrotate", "man-db")
# What a machine with a container engine has, and what the original's package wants.
PROGRAMS = ("busybox-static", "dbus", "jq", "libpam-systemd", "runc", "systemd", "systemd-sysv", "udev")
# No service starts while the root is made.
POLICY = "#!/bin/sh\nexit 101\n"
# The python of the next Debian release, which comes when a machine is upgraded to it.
UPGRADED_TO = {"bookworm": "trixie"}
APT = 'Acquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\nAPT::Install-Recommends "false";\n'
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C",
    "DEBIAN_FRONTEND": "noninteractive",
}
IN_ROOT = """
set -e
mount --make-rprivate /
mount -t proc proc "$0/proc"
mount --rbind /dev "$0/dev"
exec chroot "$0" "$@"
"""


@without_time_limit()
def build_root(suite: str) -> Path:
    """Return a root file system of a Debian release with PROGRAMS; it must not be written to."""
    root = KEPT_IN / suite
    done = KEPT_IN / f"{suite}.done"
    wanted = " ".join([*PROGRAMS, *FETCHED])
    if not done.exists() or done.read_text() != wanted:
        KEPT_IN.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(root, ignore_errors=True)
        _bootstrap(suite, root)
        done.write_text(wanted)
    return root


@without_time_limit()
def fetch_newer_python(suite: str) -> Path:
    """Return a directory with the debs that bring a release the python3 of the next one."""
    directory, done = KEPT_IN / f"python-for-{suite}", KEPT_IN / f"python-for-{suite}.done"
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        copy = KEPT_IN / f"{suite}.copy"
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-a", build_root(suite), copy], check=True)
        run_in_root(copy, "sed", "-i", f"s/{suite}/{UPGRADED_TO[suite]}/", "/etc/apt/sources.list")
        run_in_root(copy, "apt-get", "clean")
        run_in_root(copy, "apt-get", "-qq", "update")
        run_in_root(copy, "apt-get", "-qq", "-y", "--download-only", "install", "python3")
        shutil.copytree(copy / "var/cache/apt/archives", directory, ignore=shutil.ignore_patterns("lock", "partial"))
        shutil.rmtree(copy)
        done.touch()
    return directory


def run_in_root(root: Path, *words: str) -> str:
    """Run a program in a root file system, without systemd and without network of its own; return its output."""
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", IN_ROOT, os.fspath(root)]
    answer = subprocess.run(
        [*unshare, *words], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert answer.returncode == 0, f"{' '.join(words)}:\n{answer.stdout[-3000:]}"
    return answer.stdout


def _bootstrap(suite: str, root: Path) -> None:
    bootstrap(suite, root)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(POLICY)
    policy.chmod(0o755)
    (root / "etc/apt/apt.conf.d/99tests").write_text(APT)
    # Nobody will miss what a power cut would take.
    (root / "etc/dpkg/dpkg.cfg.d/tests").write_text("force-unsafe-io\n")
    run_in_root(root, "apt-get", "-qq", "update")
    run_in_root(root, "apt-get", "-qq", "-y", "install", *PROGRAMS)
    run_in_root(root, "apt-get", "clean")
    run_in_root(root, "apt-get", "-qq", "-y", "--download-only", "install", *FETCHED)
    policy.unlink()
