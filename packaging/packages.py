"""The contents of each package; debs and rpms are both made from this list."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# dpkg and rpm require a name and an address. The published packages have no contact yet, and nobody can ever own an
# address below .invalid (RFC 2606). A publisher of packages replaces this.
MAINTAINER = "AMD Container Toolkit <nobody@container-toolkit.invalid>"
# For debs, and URL for rpms. The project has no page yet, so packages have none. A publisher's address goes here.
HOMEPAGE = ""
# The address of a release's repositories. There is no server yet, so this is a directory of the machine itself. With
# only one slash after `file:`, dnf does not find the signature of the repository.
REPOSITORY = "file:///srv/amd-container-toolkit"
# Has the interpreter `python3` of these packages and the result of ASSEMBLE. No python searches this directory.
LIBRARY = "usr/lib/amd-container-toolkit"
# Each package has its modules and launchers in its own directory here. Nothing is imported from it.
PARTS = f"{LIBRARY}/parts"
# Assembles and compiles the parts. It belongs to the package that all others need.
ASSEMBLE = f"{LIBRARY}/assemble"
# The real location of `amd-ctk` and the other programs: the result of ASSEMBLE.
CURRENT = f"{LIBRARY}/current"
# Paths in files of running systems, which must stay valid for all versions.
HOOKS = f"{LIBRARY}/python/amd_gpu_tracker"
# Used in every description and copyright file. README.md and the site have the same sentences.
INDEPENDENCE = (
    "This is an independent implementation. It is not made, supported or endorsed by AMD. AMD, ROCm and Instinct are "
    "trademarks of Advanced Micro Devices, Inc."
)
# AMD's own toolkit, which this one succeeds.
ORIGINAL = ("amd-container-toolkit < 2",)


class Package(NamedTuple):
    """One deb and one rpm. Names of modules and wheels are those of bundle.lock and of the distributions."""

    name: str
    summary: str
    description: str
    depends: tuple[str, ...] = ()
    # The original rpm has programs of the same names. A deb must not conflict: dpkg would make the original delete its
    # files before anything is saved.
    rpm_conflicts: tuple[str, ...] = ()
    recommends: tuple[str, ...] = ()
    # Needed by some commands; each has this name in every system.
    suggests: tuple[str, ...] = ()
    # Third-party wheels, except those of packages that this one imports from.
    bundled: tuple[str, ...] = ()
    # Of the sources and the bundled libraries, as SPDX expressions.
    licence: str = "Apache-2.0"
    # Files of this directory, and their paths in the package.
    files: tuple[tuple[str, str], ...] = ()
    # Programs in /usr/bin and the module that each runs, "" for a launcher that is a program itself.
    programs: tuple[tuple[str, str], ...] = ()
    is_meta: bool = False

    @property
    def assembles(self) -> bool:
        """Return whether this package contains the program that assembles all parts."""
        return any(destination == ASSEMBLE for _, destination in self.files)


PACKAGES = (
    Package(
        name="amdgpu-discovery",
        summary="library that finds the AMD GPUs of a machine",
        description="""It finds the AMD GPUs and partitions of this machine, and selects them by number, id or PCI
            address. The other packages of this container toolkit for AMD GPUs need it.""",
        bundled=("click", "pyudev", "rich", "tomlkit", "typer-slim", "typing-extensions"),
        licence="Apache-2.0 AND BSD-3-Clause AND LGPL-2.1-or-later AND MIT AND PSF-2.0",
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
        bundled=("filelock",),
        licence="Apache-2.0 AND MIT",
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
        # An engine to configure, and the program that reads images in registries.
        suggests=("podman", "skopeo"),
        recommends=("amd-gpu-images", "amd-gpu-sharing", "amdgpu-simulator"),
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
        name="amd-gpu-images",
        summary="check which AMD GPUs a container image runs on",
        description="""It reads images in archives, engines and registries, tells whether they fit the GPUs of a host,
            and finds the one that does, also as a proxy in front of a registry.""",
        depends=("amdgpu-discovery", "amd-device-spec"),
        # Reads images in registries.
        suggests=("skopeo",),
        programs=(("amd-gpu-images", "amd_gpu_images.cli"),),
    ),
    Package(
        name="amd-gpu-sharing",
        summary="reservations of AMD GPUs by people without root",
        description="""It lets people without root reserve the AMD GPUs of a shared host, or wait for them in line, by
            rules of the administrator, and shows who used which GPUs.""",
        depends=("amdgpu-discovery", "amd-device-spec", "amd-gpu-tracker"),
        programs=(("amd-gpu-sharing", "amd_gpu_sharing.cli.program"),),
    ),
    Package(
        name="amdgpu-simulator",
        summary="simulated servers with AMD GPUs, for tests of any program",
        description="""It lays a simulated server with AMD GPUs over /sys and /dev for one command, or builds one as a
            directory of plain files. There is no driver: opening a GPU for work fails.""",
        depends=("amdgpu-discovery",),
        programs=(("amdgpu-simulator", "amdgpu_simulator.cli"),),
    ),
    Package(
        name="amd-container-toolkit",
        summary="AMD GPUs for containers",
        description="""It installs a whole container toolkit for AMD GPUs: the runtime for Docker and other engines, CDI
            specs, and the GPU Tracker.""",
        depends=("amd-container-runtime", "amd-ctk", "amd-gpu-images", "amd-gpu-sharing", "amdgpu-simulator"),
        is_meta=True,
    ),
)


def read_version() -> str:
    """Return the version in Python's form: 2.0.0.dev0."""
    return (ROOT / "VERSION").read_text(encoding="utf-8").strip()


def packaged_version() -> str:
    """Return the version in a form that dpkg and rpm sort before the release: 2.0.0~dev0."""
    return re.sub(r"\.?(dev|a|b|rc)(?=\d)", r"~\1", read_version())


def build_id() -> str:
    """Return a name for this build, because all commits between two releases have the same version."""
    edited = _edits()
    return f"{read_version()}-{source_date()}{f'-{edited}' if edited else ''}"


def _edits() -> str:
    """Return a hash of the differences from the last commit, "" if there are none."""
    git = ["git", "-C", ROOT]
    edited = subprocess.run([*git, "diff", "--binary", "HEAD"], capture_output=True, check=True).stdout
    words = ["ls-files", "-z", "--others", "--exclude-standard", "packages", "packaging"]
    added = subprocess.run([*git, *words], capture_output=True, check=True).stdout.split(b"\0")
    files = [ROOT / os.fsdecode(name) for name in sorted(added) if name]
    content = [edited, *(os.fsencode(file.relative_to(ROOT)) + file.read_bytes() for file in files if file.is_file())]
    return hashlib.sha256(b"".join(content)).hexdigest()[:8] if any(content) else ""


def source_date() -> int:
    """Return the date of the last commit, which everything built from it uses."""
    answer = subprocess.run(
        ["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True
    )
    return int(answer.stdout)
