"""Make a root file system and an image without a registry, from the machine's busybox and scripts that test nodes."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

PASSWD = "root:x:0:0:root:/:/bin/sh\nuser:x:1000:1000:user:/:/bin/sh\n"

# Opening a node without a driver fails with ENXIO if allowed. EPERM is from the cgroup, EACCES from the mode.
TRY_NODES = """#!/bin/sh
# Print for each node: path, device numbers, mode, owner and whether this process may open it for reading and writing.
for node; do
  numbers=$(stat -c '0x%t 0x%T' "$node") || continue
  set -- $numbers
  case $( (: <>"$node") 2>&1) in
    ''|*'No such device or address'|*'No such device') access=opens ;;
    *'Operation not permitted') access=refused-by-cgroup ;;
    *'Permission denied') access=refused-by-mode ;;
    *) access=unclear ;;
  esac
  echo "$node $(($1)):$(($2)) $(stat -c '%a %u:%g' "$node") $access"
done
"""
LIST_GPUS = """#!/bin/sh
# Print a line for each GPU node of this container.
for node in /dev/kfd /dev/dri/*; do
  [ ! -e "$node" ] || try-nodes "$node"
done
"""
TRY_NUMBERS = """#!/bin/sh
# Make a node of each MAJOR:MINOR and print whether this process may open it.
for number; do
  node=/tmp/node-$number
  [ -e "$node" ] || mknod -m 666 "$node" c "${number%:*}" "${number#*:}" || continue
  try-nodes "$node"
done
"""
SCRIPTS = {"try-nodes": TRY_NODES, "list-gpus": LIST_GPUS, "try-numbers": TRY_NUMBERS}


def build_rootfs(directory: Path) -> Path:
    """Make a root file system in `directory`, which need not exist, and return it."""
    programs = directory / "bin"
    for name in ("bin", "dev", "etc", "proc", "sys", "tmp", "root"):
        (directory / name).mkdir(parents=True)
    busybox = Path(shutil.which("busybox", path="/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin") or "/bin/busybox")
    _copy_with_libraries(busybox, directory)
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            (programs / applet).symlink_to("busybox")
    for name, text in SCRIPTS.items():
        (programs / name).write_text(text)
        (programs / name).chmod(0o755)
    (directory / "etc/passwd").write_text(PASSWD)
    (directory / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    (directory / "tmp").chmod(0o1777)
    return directory


def pack(rootfs: Path, archive: Path) -> Path:
    """Write a root file system as a tar archive for `docker import`, and return the archive."""
    with tarfile.open(archive, "w") as file:
        file.add(rootfs, arcname=".")
    return archive


def _copy_with_libraries(program: Path, directory: Path) -> None:
    """Copy busybox. It is usually static; if not, copy the libraries that ldd lists."""
    shutil.copy2(program, directory / "bin/busybox")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout.split()
    for library in (word for word in listed if word.startswith("/")):
        (directory / library[1:]).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, directory / library[1:])


def pack_rocm(rootfs: Path, directory: Path, programs: Mapping[str, str]) -> Path:
    """Return an archive that imitates AMD's images: `rocm-smi` lists GPU nodes, `programs` are scripts by name."""
    shutil.copytree(rootfs, directory / "rootfs", symlinks=True)
    shutil.copy(rootfs / "bin/list-gpus", directory / "rootfs/bin/rocm-smi")
    for name, script in programs.items():
        (directory / "rootfs/bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (directory / "rootfs/bin" / name).chmod(0o755)
    return pack(directory / "rootfs", directory / "rocm.tar")
