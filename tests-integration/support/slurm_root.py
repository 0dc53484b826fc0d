"""Root file systems of Debian releases with their Slurm."""

from __future__ import annotations

from pathlib import Path

from support.debian_root import make_root

# Slurm's oci.conf finally leads to the low-level runtimes. munge authenticates users.
PACKAGES = (
    *("slurmctld", "slurmd", "slurm-client", "munge", "runc"),
    *("iproute2", "procps", "python3"),
)


PODMAN = ("podman", "conmon", "crun", "netavark")


def slurm_root(suite: str, *, podman: bool = False) -> Path:
    """Return a root file system of a release with Slurm, made once: a minute and 600 MB each."""
    if podman:
        return make_root(f"slurm-podman-{suite}", suite, *PACKAGES, *PODMAN)
    return make_root(f"slurm-{suite}", suite, *PACKAGES)
