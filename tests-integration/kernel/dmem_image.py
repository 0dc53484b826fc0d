"""A kernel of our own with the dmem cgroup, which no kernel of Debian has yet, for the disk of the newest release."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from kernel.image import MORE_PACKAGES, Image, write_disk
from support.debian_root import debian_root, install_packages, make_root, root_cache, run_in_root
from support.debootstrap import LONGEST_INSTALLATION, archive, without_time_limit

HERE = Path(__file__).parent
CONFIG, MODULE = HERE / "dmem.config", HERE / "gpu_memory.c"
# Of the backports; a newer one is a change of this name.
SOURCE = "linux-source-7.3"
TOOLS = ("gcc", "make", "flex", "bison", "bc", "libelf-dev", "xz-utils")
SUITE = "forky"
# A fifth of the source of ext4, and time to compile is what this kernel costs.
FILE_SYSTEM = "ext2"
# Where the compiler finds them.
TREE, MODULE_TREE = f"usr/src/{SOURCE}", "usr/src/gpu-memory"
UNPACK = f"""
cd /usr/src
rm -rf unpacked && mkdir unpacked && tar -xf {SOURCE}.tar.xz -C unpacked && mv unpacked/{SOURCE} .
"""
# An option that depends on one that is not there is dropped without a word.
BUILD = f"""
cd /{TREE}
make -s tinyconfig >/dev/null
cat /usr/src/{CONFIG.name} >>.config
make -s olddefconfig
if grep '=y$' /usr/src/{CONFIG.name} | grep -vxFf .config >&2; then exit 1; fi
make -s -j2 bzImage modules
make -s M=/{MODULE_TREE} modules
"""
# Changed when what is on the disk changes.
EDITION = "1"


class DmemImage(NamedTuple):
    """What QEMU is started with, and the module that has the regions of simulated GPUs."""

    image: Image
    module: Path


@without_time_limit()
def dmem_image() -> DmemImage:
    """Return the image, made once: twelve minutes of a processor and 6 GB. A change of the module costs seconds."""
    disk = _made("kernel-dmem-disk", EDITION, _make_disk)
    sources = b"".join((SOURCE.encode(), CONFIG.read_bytes(), MODULE.read_bytes()))
    kernel = _made("kernel-dmem", sha256(sources).hexdigest(), _make_kernel)
    version = (kernel / "version").read_text()
    image = Image(version, kernel / "vmlinuz", None, disk / "disk")
    return DmemImage(image, kernel / "gpu_memory.ko")


def _made(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """Return a directory of the cache whose files were made from what `key` stands for."""
    directory = root_cache() / name
    complete = directory / ".complete"
    with FileLock(directory.with_suffix(".lock"), timeout=LONGEST_INSTALLATION):
        if not complete.exists() or complete.read_text() != key:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            make(directory)
            complete.write_text(key)
    return directory


def _make_disk(directory: Path) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as name:
        root = Path(name) / "root"
        subprocess.run(["cp", "--archive", debian_root(SUITE), root], check=True)
        install_packages(root, *MORE_PACKAGES)
        write_disk(root, directory / "disk", FILE_SYSTEM)


def _make_kernel(directory: Path) -> None:
    builder = _builder()
    (builder / MODULE_TREE).mkdir(exist_ok=True)
    (builder / MODULE_TREE / "Makefile").write_text(f"obj-m := {MODULE.stem}.o\n")
    shutil.copy(MODULE, builder / MODULE_TREE)
    shutil.copy(CONFIG, builder / "usr/src")
    run_in_root(builder, "sh", "-ec", BUILD)
    shutil.copy(builder / TREE / "arch/x86/boot/bzImage", directory / "vmlinuz")
    shutil.copy(builder / MODULE_TREE / f"{MODULE.stem}.ko", directory)
    version = (builder / TREE / "include/config/kernel.release").read_text().strip()
    (directory / "version").write_text(version)


def _builder() -> Path:
    """Return a root file system with the compiler and the unpacked source, in which a second build is short."""
    root = make_root("kernel-builder", "trixie", *TOOLS)
    if not (root / TREE).exists():
        line = f"deb {archive()} trixie-backports main\n"
        (root / "etc/apt/sources.list.d/backports.list").write_text(line)
        install_packages(root, SOURCE)
        run_in_root(root, "sh", "-ec", UNPACK)
    return root
