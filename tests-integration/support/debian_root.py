"""Root file systems of other Debian releases, whose engines are newer or older than this machine's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

from support.debootstrap import LONGEST_INSTALLATION, bootstrap, without_time_limit

PACKAGES = (
    *("docker.io", "containerd", "runc", "crun", "podman", "conmon", "netavark", "uidmap"),
    *("fuse-overlayfs", "slirp4netns", "passt", "iproute2", "procps", "ca-certificates", "systemd", "udev"),
    # Our packages need this.
    *("python3",),
)
# Since trixie, the client is a separate package.
NEWER_PACKAGES = ("docker-cli",)
# For a machine that boots and starts services and whole systems in containers.
BOOTED = (
    *("systemd", "systemd-sysv", "systemd-container", "dbus", "procps", "python3"),
    *("podman", "conmon", "crun", "runc", "buildah"),
)
# For a machine in which people log in and run rootless containers, and udev reads its rules.
LOGGED_INTO = (
    *("systemd", "systemd-sysv", "dbus", "dbus-user-session", "libpam-systemd", "udev", "procps", "python3"),
    *("cron", "at"),
    # Recommended packages are listed here, because a system that boots here cannot reach an archive.
    *("podman", "conmon", "crun", "runc", "uidmap", "fuse-overlayfs"),
)
TYPED_IN = ("sudo", "bash-completion", "zsh", "fish")
# Docker with Compose, an HTCondor pool on one machine, and the proxy of JupyterHub.
CLUSTERS = ("docker.io", "docker-cli", "docker-compose", "iproute2", "minicondor", "node-configurable-http-proxy")
FROM_PYPI = ("ray", "jupyterhub", "dockerspawner", "jupyter-server")
OLDER_SUITES = ("bookworm",)
# Programs that make containers with an engine or without one. The Dev Containers program needs Node.
TOOLS = ("docker-compose", "docker-buildx", "buildah", "nodejs")
# Debian unstable, with experimental's newer versions of these packages.
EXPERIMENTAL = "experimental"
# They start containers without an OCI runtime.
NEWEST = ("apptainer", "incus")
# For a machine with rpms: dnf, the programs that check signatures, and engines.
DNF = ("docker.io", "docker-cli", "podman", "crun", "runc", "conmon", "netavark", "python3", "dnf", "rpm", "gpg")


def debian_root(suite: str) -> Path:
    """Return a release's root file system with container engines, made once: half a minute and 700 MB each."""
    newer = () if suite in OLDER_SUITES else NEWER_PACKAGES
    return make_root(suite, suite, *PACKAGES, *newer, *(NEWEST if suite == EXPERIMENTAL else ()))


def tools_root() -> Path:
    """Return a root file system of the newest release with its engines and other programs that start containers."""
    return make_root("tools-forky", "forky", *PACKAGES, *NEWER_PACKAGES, *TOOLS)


def compose_root(suite: str) -> Path:
    """Return a root file system of a release with its engines and its Compose."""
    newer = () if suite in OLDER_SUITES else NEWER_PACKAGES
    return make_root(f"compose-{suite}", suite, *PACKAGES, *newer, "docker-compose")


def booted_root(suite: str = "trixie") -> Path:
    """Return a root file system that boots with systemd, with Podman and systemd-nspawn."""
    return make_root(f"booted-{suite}", suite, *BOOTED)


def people_root(suite: str) -> Path:
    """Return a root file system of a release that boots with systemd, with Docker, in which people log in."""
    return make_root(f"people-{suite}", suite, *_of_people(suite))


def typed_root(suite: str) -> Path:
    """Return a root file system like that of `people_root`, with sudo and the shells in which people type."""
    return make_root(f"typed-{suite}", suite, *_of_people(suite), *TYPED_IN)


def _of_people(suite: str) -> tuple[str, ...]:
    newer = () if suite in OLDER_SUITES else NEWER_PACKAGES
    return (*LOGGED_INTO, "docker.io", "iproute2", *newer)


def clusters_root() -> Path:
    """Return a root file system of Debian 13 in which people log in, with Ray, JupyterHub and HTCondor."""
    root = make_root("clusters-trixie", "trixie", *LOGGED_INTO, *CLUSTERS)
    install_from_pypi(root, *FROM_PYPI)
    return root


def dnf_root() -> Path:
    """Return a root file system of Debian 13 with dnf, rpm, Docker and Podman."""
    return make_root("dnf-trixie", "trixie", *DNF)


def of(suite: str) -> list[pytest.MarkDecorator]:
    """Return the marks of a test for a release. Packages in experimental change daily, so its tests run separately."""
    return [pytest.mark.experimental] if suite == EXPERIMENTAL else []


@without_time_limit()
def make_root(name: str, suite: str, *packages: str) -> Path:
    """Return a root file system of a release with these packages, stored under `name`."""
    root = root_cache() / name
    complete = root / ".complete"
    # Two sessions at once would install into the same incomplete root.
    with FileLock(root.with_suffix(".lock"), timeout=LONGEST_INSTALLATION):
        if not complete.exists() or complete.read_text().split() != [*packages]:
            subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
            bootstrap("sid" if suite == EXPERIMENTAL else suite, root)
            if suite == EXPERIMENTAL:
                prefer_experimental(root)
            install_packages(root, *packages)
            complete.write_text("\n".join(packages))
    return root


def root_cache() -> Path:
    """Return the directory for root file systems and files made from them."""
    directory = Path(os.environ.get("AMD_ENGINE_ROOTS", "/var/cache/amd-container-toolkit-tests"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def prefer_experimental(root: Path) -> None:
    """Make a root file system of unstable prefer experimental, from which apt installs nothing by default."""
    apt = root / "etc/apt"
    lines = (apt / "sources.list").read_text().replace(" sid ", f" {EXPERIMENTAL} ")
    (apt / "sources.list.d/experimental.list").write_text(lines)
    (apt / "preferences.d/experimental").write_text("Package: *\nPin: release a=experimental\nPin-Priority: 990\n")


def install_packages(root: Path, *packages: str) -> None:
    """Install packages of its release into a root file system."""
    # Packages must not start services in it.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    options = ["-o", "APT::Install-Recommends=false", "-o", "Acquire::Check-Valid-Until=false", "-qq", "-y"]
    for words in (["update"], ["install", *packages], ["clean"]):
        run_in_root(root, "apt-get", *options, *words)


@without_time_limit()
def install_from_pypi(root: Path, *packages: str, with_needs: bool = True) -> None:
    """Install packages from PyPI for Debian 13's Python, with the indexes of this machine's pip; only once."""
    site = root / "usr/local/lib/python3.13/dist-packages"
    complete = root / ".complete-pypi"
    with FileLock(root.with_suffix(".lock"), timeout=LONGEST_INSTALLATION):
        if complete.exists() and complete.read_text().split() == [*packages]:
            return
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"]
        options = [
            *([] if with_needs else ["--no-deps"]),
            "--upgrade",
            "--python-version=3.13",
            "--only-binary=:all:",
            f"--target={site}",
        ]
        subprocess.run([*pip, *options, *packages], check=True)
        for script in (site / "bin").iterdir():
            # Its first line names the interpreter of this machine.
            text = re.sub(r"\A#!.*", "#!/usr/bin/python3", script.read_text(encoding="utf-8"))
            target = root / "usr/local/bin" / script.name
            target.write_text(text, encoding="utf-8")
            target.chmod(0o755)
        complete.write_text("\n".join(packages))


def run_in_root(root: Path, *words: str) -> None:
    """Run a program in a root file system with the mounts that apt needs; its output is discarded."""
    script = 'mount -t proc proc "$1/proc"; exec chroot "$@"'
    enter = ("unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", os.fspath(root))
    # The directory in the caller's TMPDIR does not exist there.
    environment = ("env", "-u", "TMPDIR", "DEBIAN_FRONTEND=noninteractive")
    subprocess.run([*enter, *environment, *words], stdout=subprocess.DEVNULL, check=True)
