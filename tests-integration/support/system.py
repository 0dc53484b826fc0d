"""A Debian system that boots systemd on an overlay over a root file system, without a network."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection
from pathlib import Path

from support.box import TIMEOUT, UNSHARE

CGROUPS = Path("/sys/fs/cgroup")
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C"}
# Units that would wait for missing devices and networks.
MASKED = ("systemd-udevd.service", "systemd-udev-trigger.service", "systemd-networkd.service",
          "systemd-resolved.service",
          "systemd-timesyncd.service", "systemd-logind.service", "systemd-firstboot.service", "getty.target",
          "apt-daily.timer", "apt-daily-upgrade.timer", "man-db.timer", "dpkg-db-backup.timer")  # fmt: skip
NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
BOOT = """
set -e
base=$0 root=$1
system=$base/system
mount --make-rprivate /
mkdir -p "$base/upper" "$base/work" "$system"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$base/upper,workdir=$base/work" "$system"
mount -t proc proc "$system/proc"
mount -t sysfs -o ro sysfs "$system/sys"
# Docker's daemon starts only where packets are forwarded, or where it may write this itself.
echo 1 >"$system/proc/sys/net/ipv4/ip_forward"
mount --bind "$system/proc/sys" "$system/proc/sys"
mount -o remount,bind,ro "$system/proc/sys"
mount -t cgroup2 cgroup2 "$system/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$system/dev"
mkdir "$system/dev/pts" "$system/dev/shm"
for node in null:3 zero:5 full:7 random:8 urandom:9; do
    mknod -m 666 "$system/dev/${node%:*}" c 1 "${node#*:}"
done
mknod -m 666 "$system/dev/tty" c 5 0
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$system/dev/pts"
ln -s pts/ptmx "$system/dev/ptmx"
ln -s /proc/self/fd "$system/dev/fd"
: >"$system/dev/console"
mount -t tmpfs -o mode=755 tmpfs "$system/run"
mount -t tmpfs -o mode=1777 tmpfs "$system/tmp"
mkdir "$system/run/shared" "$system/run/old"
mount --bind "$base/shared" "$system/run/shared"
cd "$system"
pivot_root . run/old
exec chroot . /bin/sh -c 'umount -l /run/old; exec env -i container=test /sbin/init' <dev/null >dev/null 2>&1
"""


class System:
    """A system; `run` returns the output of a script in it. `shared` is /run/shared there."""

    def __init__(self, base: Path, root: Path, *, unmasked: Collection[str] = ()) -> None:
        """Boot a root file system; `unmasked` are units of MASKED that may start."""
        self.base = base
        self.shared = base / "shared"
        self.shared.mkdir(parents=True)
        self._root = root
        self._mask(base / "upper/etc/systemd/system", unmasked)
        self.boot()

    def boot(self) -> None:
        """Start the system with the contents of its disk."""
        self._cgroup = Path(tempfile.mkdtemp(prefix="amd-ctk-install-", dir=_own_cgroups()))
        join = f'echo $$ >"{self._cgroup}/cgroup.procs"; exec "$@"'
        self._process = subprocess.Popen(
            ["sh", "-c", join, "sh", *UNSHARE, *NAMESPACES, "sh", "-c", BOOT, self.base, self._root],
            stdin=subprocess.DEVNULL,
            # Hides unshare's message when it is killed.
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._wait_until_booted()

    def run(self, script: str, *, check: bool = True) -> str:
        """Run a shell script in the system; return its output, including stderr."""
        answer = subprocess.run(
            [*self.enter(), "DEBIAN_FRONTEND=noninteractive", "sh", "-c", f"cd /root\n{script}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT,
            check=False,
        )  # fmt: skip
        assert not check or answer.returncode == 0, f"{script}\nended with {answer.returncode}:\n{answer.stdout}"
        return answer.stdout

    def enter(self) -> list[str]:
        """Return the words that run a command in the system as root, with an environment of its own."""
        enter = ["nsenter", f"--target={self._init()}", "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup"]
        join = f'mkdir -p "{self._cgroup}/tests"; echo $$ >"{self._cgroup}/tests/cgroup.procs"; exec "$@"'
        environment = (f"{key}={value}" for key, value in ENVIRONMENT.items())
        return ["sh", "-c", join, "sh", *enter, "env", "-i", *environment]

    def write(self, path: str, text: str) -> None:
        """Write a file in the system."""
        (self.shared / "written").write_text(text, encoding="utf-8")
        self.run(f"mkdir -p $(dirname {path}) && cp /run/shared/written {path}")

    def kill(self) -> None:
        """Kill every process of the system at once, as if its power was cut."""
        os.kill(self._init(), signal.SIGKILL)
        self._process.wait(timeout=30)
        for _ in range(100):
            _remove_cgroups(self._cgroup)
            if not self._cgroup.exists():
                break
            time.sleep(0.05)

    def stop(self) -> None:
        """End the system and remove its files."""
        self.kill()
        shutil.rmtree(self.base)

    def _mask(self, units: Path, unmasked: Collection[str]) -> None:
        units.mkdir(parents=True)
        for unit in set(MASKED).difference(unmasked):
            (units / unit).symlink_to("/dev/null")

    def _init(self) -> int:
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text(encoding="ascii")
        return int(children.split()[0])

    def _wait_until_booted(self) -> None:
        deadline = time.monotonic() + TIMEOUT
        state = ""
        while time.monotonic() < deadline:
            time.sleep(0.2)
            try:
                state = self.run("systemctl is-system-running", check=False).strip()
            except (IndexError, OSError):
                continue
            if state in ("running", "degraded"):
                return
        raise AssertionError(f"the system did not boot: {state}")


def can_boot() -> bool:
    """Return whether this machine has cgroup version 2, which systemd needs."""
    return bool(_find_cgroups())


def _own_cgroups() -> Path:
    """Return the mount point of cgroup version 2, with or without version 1."""
    return _find_cgroups()[0]


def _find_cgroups() -> list[Path]:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()]
    return [Path(mount[1]) for mount in mounts if mount[2] == "cgroup2"]


def _remove_cgroups(directory: Path) -> None:
    for path, _, _ in os.walk(directory, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            return
