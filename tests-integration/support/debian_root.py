"""Root file systems of other Debian releases, whose engines are newer or older than this machine's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support.installed import engine_program

PACKAGES = (
    *("docker.io", "containerd", "runc", "crun", "podman", "conmon", "netavark", "uidmap"),
    *("fuse-overlayfs", "slirp4netns", "passt", "iproute2", "procps", "ca-certificates", "systemd", "udev"),
    # What our own packages need there.
    *("python3",),
)
# The client is a package of its own from trixie on.
NEWER_PACKAGES = ("docker-cli",)
OLDER_SUITES = ("bookworm",)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Debian's scripts for a release are all the same link; older debootstraps do not have that of the newest.
ANY_SCRIPT = "/usr/share/debootstrap/scripts/sid"


def debian_root(suite: str) -> Path:
    """Return a root file system of a release with container engines, made once: half a minute and 700 MB each."""
    root = _cache() / suite
    packages = [*PACKAGES, *(() if suite in OLDER_SUITES else NEWER_PACKAGES)]
    complete = root / ".complete"
    if not complete.exists() or complete.read_text().split() != packages:
        subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
        _bootstrap(suite, root)
        _install(root, packages)
        complete.write_text("\n".join(packages))
    return root


def _cache() -> Path:
    directory = Path(os.environ.get("AMD_ENGINE_ROOTS", "/var/cache/amd-container-toolkit-tests"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _bootstrap(suite: str, root: Path) -> None:
    script = Path(f"/usr/share/debootstrap/scripts/{suite}")
    debootstrap = str(engine_program("debootstrap"))
    words = [debootstrap, "--variant=minbase", f"--keyring={KEYRING}", suite, str(root), _mirror()]
    subprocess.run([*words, str(script if script.exists() else ANY_SCRIPT)], stdout=subprocess.DEVNULL, check=True)


def _install(root: Path, packages: list[str]) -> None:
    # No package may start a service in there.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    (root / "etc/resolv.conf").write_bytes(Path("/etc/resolv.conf").read_bytes())
    (root / "etc/hosts").write_bytes(Path("/etc/hosts").read_bytes())
    options = ["-o", "APT::Install-Recommends=false", "-o", "Acquire::Check-Valid-Until=false", "-qq", "-y"]
    for words in (["update"], ["install", *packages], ["clean"]):
        _in_root(root, "apt-get", *options, *words)


def _in_root(root: Path, *words: str) -> None:
    script = 'mount -t proc proc "$1/proc"; exec chroot "$@"'
    enter = ("unshare", "--mount", "--pid", "--fork", "sh", "-c", script, "sh", os.fspath(root))
    environment = ("env", "DEBIAN_FRONTEND=noninteractive")
    subprocess.run([*enter, *environment, *words], stdout=subprocess.DEVNULL, check=True)


def _mirror() -> str:
    """Return the mirror this machine uses itself."""
    words = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    uris = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return min(uri for uri in uris if uri.rstrip("/").endswith("/debian"))
