"""What each package carries: the one list from which debs and rpms are made."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# dpkg and rpm want a name and an address. Nobody answers for published packages yet, and below .invalid (RFC 2606) no
# address will ever be somebody's. A publisher of packages puts its own here.
MAINTAINER = "AMD Container Toolkit <nobody@container-toolkit.invalid>"
# Of debs, and URL of rpms. The project has no page yet, so packages have none; a publisher's address goes here.
HOMEPAGE = ""
# Where the repositories of a release will be found. There is no server yet: this is a directory of the machine itself.
# With one slash behind `file:` dnf does not find the signature of the repository.
REPOSITORY = "file:///srv/amd-container-toolkit"
# Below it are `python3`, the interpreter these packages run with, and what ASSEMBLE makes; no python looks there.
LIBRARY = "usr/lib/amd-container-toolkit"
# Each package has its modules and launchers in a directory of its own, from which nothing is imported.
PARTS = f"{LIBRARY}/parts"
# Puts the parts together and compiles them; it belongs to the package that every other one needs.
ASSEMBLE = f"{LIBRARY}/assemble"
# Where `amd-ctk` and the others really are: what ASSEMBLE made of the parts.
CURRENT = f"{LIBRARY}/current"
# What files of a running system name for ever, whatever version serves.
HOOKS = f"{LIBRARY}/python/amd_gpu_tracker"
# Whose it is: in every description and copyright file. README.md and the site have the same sentences.
INDEPENDENCE = (
    "This is an independent implementation. It is not made, supported or endorsed by AMD. AMD, ROCm and Instinct are "
    "trademarks of Advanced Micro Devices, Inc."
)
# AMD's own, of which this is the successor.
ORIGINAL = ("amd-container-toolkit < 2",)


class Package(NamedTuple):
    """One deb and one rpm. Names of modules and wheels are those of bundle.lock and of the distributions."""

    name: str
    summary: str
    description: str
    depends: tuple[str, ...] = ()
    # The original rpm has programs of the same names. A deb must not say so: dpkg would have the original delete what
    # it deletes before anything is saved.
    rpm_conflicts: tuple[str, ...] = ()
    recommends: tuple[str, ...] = ()
    # What some commands need, under the name that it has in every system.
    suggests: tuple[str, ...] = ()
    # Third-party wheels that no package before this one in the arrow of imports has brought.
    bundled: tuple[str, ...] = ()
    # Of the sources and of the bundled libraries, as SPDX expressions.
    licence: str = "Apache-2.0"
    # Where files of this directory go.
    files: tuple[tuple[str, str], ...] = ()
    # Programs in /usr/bin and the function each runs, "" for one that is a program already.
    programs: tuple[tuple[str, str], ...] = ()
    is_meta: bool = False

    @property
    def assembles(self) -> bool:
        """Return whether this package has the program that puts all parts together."""
        return any(destination == ASSEMBLE for _, destination in self.files)


PACKAGES = (
    Package(
        name="amdgpu-discovery",
        summary="library that finds the AMD GPUs of a machine",
        description="""It finds the AMD GPUs and partitions of this machine, and selects them by number, id or PCI
            address. The other packages of this container toolkit for AMD GPUs need it.""",
        bundled=("pyudev",),
        licence="Apache-2.0 AND LGPL-2.1-or-later",
        files=(("files/assemble", ASSEMBLE),),
    ),
    Package(
        name="amd-device-spec",
        summary="library that describes AMD GPUs to container engines",
        description="""It writes and checks CDI specs, and edits OCI specs so that a container gets the AMD GPUs it
            asks for.""",
        depends=("amdgpu-discovery",),
        bundled=("attrs", "jsonschema", "pyrsistent", "ruamel.yaml"),
        licence="Apache-2.0 AND MIT",
    ),
    Package(
        name="amd-gpu-tracker",
        summary="shared and exclusive reservations of AMD GPUs",
        description="""It tracks which container uses which AMD GPU, and gives exclusive GPUs to one container at a
            time. 'amd-gpu-tracker enable' enables it.""",
        depends=("amdgpu-discovery",),
        bundled=("click", "filelock", "rich", "typer-slim", "typing-extensions"),
        licence="Apache-2.0 AND BSD-3-Clause AND MIT AND PSF-2.0",
        files=(
            ("files/tmpfiles.conf", "usr/lib/tmpfiles.d/amd-gpu-tracker.conf"),
            ("files/hook.py", f"{HOOKS}/hook.py"),
            ("files/release.sh", f"{HOOKS}/release.sh"),
        ),
        programs=(("amd-gpu-tracker", "amd_gpu_tracker.cli"),),
    ),
    Package(
        name="amd-container-runtime",
        summary="OCI runtime that gives containers the AMD GPUs they ask for",
        description="""It adds the AMD GPUs that a container asks for with AMD_VISIBLE_DEVICES to the container's spec,
            and then runs runc or crun.""",
        depends=("amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker"),
        rpm_conflicts=ORIGINAL,
        recommends=("runc",),
        files=(
            ("files/logrotate", "etc/logrotate.d/amd-container-runtime"),
            ("files/config.toml", "usr/share/doc/amd-container-runtime/examples/config.toml"),
        ),
        programs=(("amd-container-runtime", ""),),
    ),
    Package(
        name="amd-ctk",
        summary="command line of a container toolkit for AMD GPUs",
        description="""It configures Docker, Podman, containerd and CRI-O for AMD GPUs, generates CDI specs and keeps
            them up to date, lists GPUs, and controls the GPU Tracker.""",
        depends=("amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker"),
        rpm_conflicts=ORIGINAL,
        # Engines to configure, and the program that reads images in registries.
        suggests=("podman", "skopeo"),
        bundled=("tomlkit",),
        licence="Apache-2.0 AND MIT",
        files=(
            ("systemd", "usr/lib/systemd/system"),
            ("files/amd-ctk.preset", "usr/lib/systemd/system-preset/85-amd-ctk.preset"),
            ("udev", "usr/lib/udev/rules.d"),
            ("monitoring", "usr/share/amd-container-toolkit/monitoring"),
            ("files/is-what-1-left", f"{LIBRARY}/is-what-1-left"),
        ),
        programs=(("amd-ctk", "amd_ctk.cli"),),
    ),
    Package(
        name="amd-container-toolkit",
        summary="AMD GPUs for containers",
        description="""It installs a whole container toolkit for AMD GPUs: the runtime for Docker and other engines, CDI
            specs, and the GPU Tracker.""",
        depends=("amd-container-runtime", "amd-ctk"),
        is_meta=True,
    ),
)


def read_version() -> str:
    """Return the version in the words of Python: 2.0.0.dev0."""
    return (ROOT / "VERSION").read_text(encoding="utf-8").strip()


def packaged_version() -> str:
    """Return the version so that dpkg and rpm sort what comes before a release before it: 2.0.0~dev0."""
    return re.sub(r"\.?(dev|a|b|rc)(?=\d)", r"~\1", read_version())


def build_id() -> str:
    """Return what tells one build from another: every commit between two releases has the same version."""
    edited = _edits()
    return f"{read_version()}-{source_date()}{f'-{edited}' if edited else ''}"


def _edits() -> str:
    """Return a name for what differs from the last commit, "" where nothing does."""
    git = ["git", "-C", ROOT]
    edited = subprocess.run([*git, "diff", "--binary", "HEAD"], capture_output=True, check=True).stdout
    words = ["ls-files", "-z", "--others", "--exclude-standard", "packages", "packaging"]
    added = subprocess.run([*git, *words], capture_output=True, check=True).stdout.split(b"\0")
    files = [ROOT / os.fsdecode(name) for name in sorted(added) if name]
    content = [edited, *(os.fsencode(file.relative_to(ROOT)) + file.read_bytes() for file in files if file.is_file())]
    return hashlib.sha256(b"".join(content)).hexdigest()[:8] if any(content) else ""


def source_date() -> int:
    """Return the date of the last commit, which is the date of everything that is built from it."""
    answer = subprocess.run(
        ["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True
    )
    return int(answer.stdout)
