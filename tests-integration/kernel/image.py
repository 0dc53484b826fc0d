"""What a virtual machine boots: a Debian release's own kernel, a small initrd, and a disk with its engines."""

from __future__ import annotations

import lzma
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from kernel.agent import AGENT, UNIT
from support.busybox import build_rootfs
from support.debian_root import debian_root, install_packages, root_cache, run_in_root
from support.installed import engine_program

# Beside the engines: what loads modules, what engines ask systemd by, and what makes sessions of people.
MORE_PACKAGES = ("kmod", "dbus", "e2fsprogs", "dbus-user-session", "libpam-systemd")
SLURM = ("slurmctld", "slurmd", "slurm-client", "munge")
# What its test starts.
SLURM_SERVICES = ("slurmctld", "slurmd", "munge")
# The part of ROCm that asks KFD; newer releases have it inside of another library.
ROCM = {"bookworm": ("libhsakmt1",), "trixie": ("libhsakmt1",)}
# What the initrd has to load to find the disk; udev loads the rest.
DISK_MODULES = ("virtio_pci", "virtio_blk", "crc32c_generic", "ext4")
# In GB; engines, images and debs need two.
DISK_SIZE = "5G"
# Nothing waits for a network, a clock or a user here.
MASKED = (
    *("systemd-networkd.service", "systemd-resolved.service", "systemd-timesyncd.service", "systemd-logind.service"),
    *("systemd-firstboot.service", "getty.target", "docker.service", "docker.socket", "containerd.service"),
    *("apt-daily.timer", "apt-daily-upgrade.timer", "man-db.timer", "dpkg-db-backup.timer", "fstrim.timer"),
    *("e2scrub_all.timer", "e2scrub_reap.service", "podman.service", "podman.socket", "podman-auto-update.timer"),
)
INIT = """#!/bin/sh
mount -t devtmpfs dev /dev
mount -t proc proc /proc
for module in /modules/*.ko; do insmod "$module"; done
mount -t ext4 /dev/vda /system || exec sh
umount /proc
exec switch_root /system /lib/systemd/systemd
"""
# A name that means the newest kernel, and what that one is made of. Older debs have /lib, which is a link here.
DOWNLOAD_KERNEL = """
cd /tmp
apt-get -qq download $(apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances linux-image-amd64 | grep -E '^linux-(base|image|binary|modules)-[0-9]')
for deb in linux-*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C / && rm "$deb"; done
rm -rf /var/lib/apt/lists/*
"""
# Changed when what is on the disk changes, so that nobody boots an older one.
EDITION = "3"


class Image(NamedTuple):
    """What QEMU is started with; `version` is that of the kernel, and `disk` must not be written to."""

    version: str
    kernel: Path
    # None for a kernel that finds the disk by itself.
    initrd: Path | None
    disk: Path


def kernel_image(suite: str) -> Image:
    """Return the image of a release, made once: two minutes and 2 GB each."""
    directory = root_cache() / f"kernel-{suite}"
    complete = directory / ".complete"
    with FileLock(directory.with_suffix(".lock"), timeout=1800):
        if not complete.exists() or complete.read_text().split()[0] != EDITION:
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir()
            version = _make(suite, directory)
            complete.write_text(f"{EDITION} {version}")
    version = complete.read_text().split()[1]
    return Image(version, directory / "vmlinuz", directory / "initrd", directory / "disk.ext4")


def _make(suite: str, directory: Path) -> str:
    """Write the three files into a directory; return the kernel's version."""
    base = debian_root(suite)
    with tempfile.TemporaryDirectory(dir=directory) as name:
        root = Path(name) / "root"
        subprocess.run(["cp", "--archive", base, root], check=True)
        install_packages(root, *MORE_PACKAGES, *SLURM, *ROCM.get(suite, ()))
        run_in_root(root, "sh", "-ec", DOWNLOAD_KERNEL)
        version = next((root / "usr/lib/modules").iterdir()).name
        subprocess.run([engine_program("depmod"), "-b", root, version], check=True)
        shutil.copy(_kernel_file(root, version), directory / "vmlinuz")
        _write_initrd(root, version, directory / "initrd")
        for service in SLURM_SERVICES:
            (root / f"etc/systemd/system/multi-user.target.wants/{service}.service").unlink()
        write_disk(root, directory / "disk.ext4")
    return version


def write_disk(root: Path, disk: Path, file_system: str = "ext4") -> None:
    """Make a machine's disk of a root file system, which changes."""
    _prepare(root, file_system)
    words = ["-q", "-F", "-t", file_system, "-E", "lazy_itable_init=0", "-d", root, disk, DISK_SIZE]
    subprocess.run([engine_program("mkfs.ext4"), *words], check=True)


def _kernel_file(root: Path, version: str) -> Path:
    """Return the kernel, which from Debian 14 on is beside its modules until it is installed."""
    beside_modules = root / f"usr/lib/modules/{version}/vmlinuz"
    return beside_modules if beside_modules.exists() else root / f"boot/vmlinuz-{version}"


def _write_initrd(root: Path, version: str, initrd: Path) -> None:
    """Pack busybox, the modules of the disk in the order they are loaded, and a script that goes on to systemd."""
    with tempfile.TemporaryDirectory() as name:
        tree = build_rootfs(Path(name) / "initrd")
        for directory in ("modules", "system"):
            (tree / directory).mkdir()
        for position, module in enumerate(_module_files(root, version)):
            (tree / f"modules/{position:02}-{module.name.removesuffix('.xz')}").write_bytes(_unpacked(module))
        (tree / "init").write_text(INIT)
        (tree / "init").chmod(0o755)
        pack = 'cd "$0" && find . | cpio --quiet -o -H newc | gzip -1 >"$1"'
        subprocess.run(["sh", "-c", pack, tree, initrd], check=True)


def _module_files(root: Path, version: str) -> list[Path]:
    """Return the files to load, each after those it needs; what is built in has none."""
    files: dict[Path, None] = {}
    for name in DISK_MODULES:
        words = ["-d", os.fspath(root), "-S", version, "--show-depends", name]
        listed = subprocess.run([engine_program("modprobe"), *words], capture_output=True, text=True, check=False)
        lines = [line.split() for line in listed.stdout.splitlines()]
        files |= {Path(words[1]): None for words in lines if words[0] == "insmod"}
    return list(files)


def _unpacked(module: Path) -> bytes:
    content = module.read_bytes()
    return lzma.decompress(content) if module.suffix == ".xz" else content


def _prepare(root: Path, file_system: str) -> None:
    """Make a machine of a root file system: without units that wait, with the agent that runs commands."""
    units = root / "etc/systemd/system"
    for unit in MASKED:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    (root / "usr/local/sbin/agent").write_text(AGENT)
    (units / "agent.service").write_text(UNIT)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/agent.service").symlink_to("../agent.service")
    (root / "etc/fstab").write_text(f"/dev/vda / {file_system} rw 0 1\n")
    (root / "etc/hostname").write_text("gpu-server\n")
    (root / "usr/sbin/policy-rc.d").unlink(missing_ok=True)
    (root / ".complete").unlink(missing_ok=True)
