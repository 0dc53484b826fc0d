"""The disk of the machine: made with everything installed, and looked at from outside when power was cut."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from amdgpu_simulator import build_host
from kernel.image import Image
from power.machine import TIMEOUT
from power.work import ON_HOST, SET_UP
from support.busybox import build_rootfs
from support.debs import META_PACKAGE, build_debs
from support.installed import engine_program

# The simulated host lies on the disk of the machine, with every file that the toolkit keeps.
HOST = "srv/host"
# Before the first step, so that there is something to keep.
DAEMON_JSON = '{\n  "log-level": "warn"\n}\n'
WATCHED = ("etc/docker", "etc/containers", "etc/cdi", "etc/amd-container-toolkit", "var/lib/amd-container-toolkit")
# Made again wherever it does not fit, which programs see by its stamp; see docs/reference/config.md.
NOT_COMPARED = ("config.compiled", ".lock")
# Lines with times, of which a power cut may take the last; see docs/how-to/report.md. What is in them is counted.
HISTORY = "var/lib/amd-container-toolkit/history/"
# Of a drain: when it began and ends.
TIMES = re.compile(r'"(since|until)":[1-9][0-9.]*')
# What an interrupted write leaves, which nobody reads.
LEFT_OVER = ".tmp"
FSTAB = "/dev/vda / ext4 rw 0 1\ntmpfs /srv/host/run tmpfs mode=755 0 0\n"
REFRESH = f"[Service]\nEnvironment={ON_HOST}\n"
# In place of runc, for a look from outside: what is reserved is seen without a container.
STAND_IN = "srv/stand-in/runc"


def make_disk(image: Image, disk: Path) -> None:
    """Copy the image's disk and install the debs, a simulated host with four GPUs, and bundles that ask for them."""
    copy_disk(image.disk, disk)
    with mounted(disk) as root:
        debs = build_debs(root / "srv/debs")
        next(debs.glob(f"{META_PACKAGE}*")).unlink()
        in_root(root, "dpkg --force-unsafe-io --install /srv/debs/*.deb")
        build_host(root / HOST, "mi210-4", bare=True)
        (root / HOST / "etc/docker").mkdir(parents=True, exist_ok=True)
        (root / HOST / "etc/docker/daemon.json").write_text(DAEMON_JSON)
        (root / HOST / "run").mkdir(exist_ok=True)
        build_rootfs(root / "srv/rootfs")
        on_host(root, SET_UP)
        for name, request in (("shared", "0"), ("exclusive", "1"), ("hooks", "")):
            _write_bundle(root, name, request)
        (root / STAND_IN).parent.mkdir()
        (root / STAND_IN).symlink_to("/bin/true")
        (root / "etc/fstab").write_text(FSTAB)
        # Its number is new at every boot, and there is a node of it; the unit asks for that.
        (root / "etc/modules-load.d/amdgpu.conf").write_text("amdgpu\n")
        drop_in = root / "etc/systemd/system/amd-cdi-refresh.service.d/host.conf"
        drop_in.parent.mkdir()
        drop_in.write_text(REFRESH)
        # The unit asks whether there is a spec to refresh, and does not know of the simulated host.
        (root / "var/lib/amd-container-toolkit/cdi").mkdir(parents=True)
        (root / "var/lib/amd-container-toolkit/cdi/one").touch()


def copy_disk(disk: Path, copy: Path) -> None:
    """Copy a disk, of which a quarter is in use."""
    subprocess.run(["cp", "--sparse=always", disk, copy], check=True)


@contextmanager
def mounted(disk: Path) -> Iterator[Path]:
    """Mount a disk, whose journal is replayed by that as it is at a boot."""
    point = disk.with_suffix(".mounted")
    point.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "ext4", "-o", "loop", disk, point], check=True)
    try:
        yield point
    finally:
        subprocess.run(["umount", point], check=True)
        _wait_until_unused(disk)


def _wait_until_unused(disk: Path) -> None:
    """Wait until the kernel has let go of a file system that was unmounted.

    It was mounted in the namespaces of `in_root` too. The kernel takes those apart some time after their last process
    has ended, and writes what is left to the disk only then, whatever is in that file by now.
    """
    until = time.monotonic() + TIMEOUT
    while subprocess.run(["losetup", "--associated", disk], capture_output=True, check=True).stdout:
        assert time.monotonic() < until, f"{disk} is still in use"
        time.sleep(0.01)


def in_root(root: Path, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script with the programs of a mounted disk."""
    enter = 'mount -t proc proc "$1/proc" && mount -t devtmpfs dev "$1/dev" && exec chroot "$1" sh -ec "$2"'
    words = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", enter, "sh", os.fspath(root), script]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root"}
    ended = subprocess.run(
        words, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert not check or ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"
    return ended


def on_host(root: Path, script: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a script with the programs of a mounted disk, for the simulated host that lies on it."""
    return in_root(root, f"export {ON_HOST}\n{script}", check=check)


def read_files(root: Path) -> dict[str, str]:
    """Return the content of each file that the toolkit keeps on a disk, by its path on the simulated host."""
    host = root / HOST
    found = (path for directory in WATCHED for path in sorted((host / directory).rglob("*")) if path.is_file())
    kept = (path for path in found if not path.name.endswith((*NOT_COMPARED, LEFT_OVER)))
    contents = {os.fspath(path.relative_to(host)): path.read_text(errors="replace") for path in kept}
    return {path: TIMES.sub(r'"\1":1', content) for path, content in contents.items() if not path.startswith(HISTORY)}


def _write_bundle(root: Path, name: str, request: str) -> None:
    bundle = root / "srv/bundles" / name
    bundle.mkdir(parents=True)
    subprocess.run([engine_program("runc"), "spec"], cwd=bundle, check=True)
    spec = json.loads((bundle / "config.json").read_text())
    spec["root"] = {"path": "/srv/rootfs", "readonly": True}
    spec["process"] |= {"terminal": False, "args": ["sleep", "1000"]}
    if request:
        spec["process"]["env"].append(f"AMD_VISIBLE_DEVICES={request}")
    else:
        _add_cdi_device(root, spec, "1")
    (bundle / "config.json").write_text(json.dumps(spec))


def _add_cdi_device(root: Path, spec: dict[str, Any], name: str) -> None:
    """Add the nodes of a CDI device and the hooks, as an engine does."""
    cdi = json.loads((root / HOST / "etc/cdi/amd.json").read_text())
    device = next(each for each in cdi["devices"] if each["name"] == name)
    nodes = ("path", "type", "major", "minor", "fileMode", "uid", "gid")
    spec["linux"]["devices"] = [
        {key: node[key] for key in nodes if key in node} for node in device["containerEdits"]["deviceNodes"]
    ]
    spec["hooks"] = {}
    for hook in cdi["containerEdits"]["hooks"]:
        entry = {key: hook[key] for key in ("path", "args", "env", "timeout") if key in hook}
        spec["hooks"].setdefault(hook["hookName"], []).append(entry)
