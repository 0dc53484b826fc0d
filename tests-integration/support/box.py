"""A box: a machine within this machine, for engines that must believe they see GPUs.

It has its own namespaces and root file system (an overlay in memory over a directory). Its /dev has the nodes of a
simulated host, made with mknod. Engines in it affect nothing outside, and everything disappears with the box.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from support.docker import EngineError

# A user without privileges, in the group of render nodes.
USER = "u1"
RENDER_GID = 110
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# In seconds; long enough for a busy machine, and shorter than the time limit of a test.
TIMEOUT = 300.0
# What this begins ends with the test run, also with one that is killed or interrupted in a fixture.
UNSHARE = ("setpriv", "--pdeathsig=KILL", "unshare", "--fork", "--kill-child=SIGKILL")

# Sets up a kernel's files in /sys/fs/cgroup and /dev below $root, which already has a /sys.
KERNEL = r"""
mount -t tmpfs -o mode=755 cgroup "$root/sys/fs/cgroup"
for hierarchy in /sys/fs/cgroup/*; do
  # crun refuses a machine that has both kinds of cgroups, so the older kind has to do where there is any.
  [ "${hierarchy##*/}" != unified ] && mountpoint -q "$hierarchy" || continue
  mkdir "$root/sys/fs/cgroup/${hierarchy##*/}"
  mount --bind "$hierarchy" "$root/sys/fs/cgroup/${hierarchy##*/}"
done
[ ! -e /sys/fs/cgroup/cgroup.controllers ] || mount --bind /sys/fs/cgroup "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null:1:3 zero:1:5 full:1:7 random:1:8 urandom:1:9 tty:5:0 fuse:10:229; do
  mknod -m 666 "$root/dev/${node%%:*}" c $(echo "${node#*:}" | tr : ' ')
done
mkdir "$root/dev/pts" "$root/dev/shm" "$root/dev/mqueue"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t mqueue mqueue "$root/dev/mqueue"
ln -s /proc/self/fd "$root/dev/fd"
for stream in stdin:0 stdout:1 stderr:2; do
  ln -s "/proc/self/fd/${stream#*:}" "$root/dev/${stream%:*}"
done
"""

# $1: the directory that becomes the root, $2: an empty one, $3: nodes, a line each, $4: the directory that is shared as
# /box, $5: a directory for /sys in addition to the kernel's own, "" for none; the rest: directories that are shared
# under their own names.
INIT = (
    r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 box "$2"
mkdir "$2/upper" "$2/work" "$2/root"
mount -t overlay box -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
root=$2/root
mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/run" "$root/tmp" "$root/box" "$root/old"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
if [ -n "$5" ]; then
  # Users may mount a sysfs for their containers only where they see a whole one.
  mkdir "$root/sysfs"
  mount -t sysfs -o ro sysfs "$root/sysfs"
  mount -t overlay sys -o "ro,lowerdir=$5:$root/sys" "$root/sys"
fi
"""
    + KERNEL
    + r"""
mkdir "$root/dev/dri"
echo "$3" | while read -r path major minor mode gid; do
  mknod -m "$mode" "$root$path" c "$major" "$minor"
  chgrp "$gid" "$root$path"
done
# What engines of the machine have is none of the box's business.
for directory in /run /etc/cdi /var/lib/containerd /var/lib/containers /var/lib/docker; do
  mkdir -p "$root$directory"
  mount -t tmpfs -o mode=755 box "$root$directory"
done
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount --bind "$4" "$root/box"
shift 5
for directory; do
  mkdir -p "$root$directory"
  mount --bind "$directory" "$root$directory"
done
# Not everywhere installed, and needed by nothing that is tried here.
! command -v ip >/dev/null || ip link set lo up
cd "$root"
pivot_root . old
exec chroot . /bin/sh -c 'umount -l /old; : >/run/box-is-up; exec </dev/null >/dev/null 2>&1; exec sleep infinity'
"""
)


# $1: a cgroup that becomes the root of the box's own hierarchy. It has no controllers of version 2, only the device
# filter, which needs none.
CGROUP2 = """
set -e
umount --recursive /sys/fs/cgroup
mount -t cgroup2 cgroup /sys/fs/cgroup
mkdir "/sys/fs/cgroup/$1"
mount --bind "/sys/fs/cgroup/$1" /sys/fs/cgroup
"""

B = TypeVar("B", bound="Box")


class Box:
    """Use it as a context manager: `with Box("/", directory, spec) as box: box("ls", "/dev/dri")`."""

    def __init__(
        self,
        root: str,
        directory: Path,
        nodes: list[dict[str, int | str]],
        *,
        shared: Iterable[str] = (),
        hardware: str = "",
        online: bool = False,
        cgroup2: bool = False,
    ) -> None:
        """Prepare a box over `root` with device nodes of a CDI spec, and with the directories in `shared`.

        `hardware` is a simulated host whose /sys overlays that of the box. With `online`, the box uses the network of
        this machine. With `cgroup2`, it has only cgroups of version 2, like newer systems, even if this machine has
        both versions.
        """
        self._namespaces = ["--mount", "--pid", "--uts", "--ipc", *([] if online else ["--net"])]
        self.share = directory / "share"
        self._scratch = directory / "scratch"
        sys = f"{hardware}/sys" if hardware else ""
        self._words = [root, f"{self._scratch}", _node_lines(nodes), f"{self.share}", sys, *shared]
        self._cgroup2 = cgroup2
        self._process: subprocess.Popen[bytes] | None = None
        self._started: list[subprocess.Popen[bytes]] = []
        self._pid = 0

    def __enter__(self: B) -> B:
        try:
            self._boot()
            if self._cgroup2:
                self("sh", "-c", CGROUP2, "sh", self._cgroup)
            self.prepare()
        except BaseException:
            # This includes a test that reached its time limit.
            self.__exit__()
            raise
        return self

    def prepare(self) -> None:
        """Set up a started box for a subclass. If this fails, the box is removed."""

    def _boot(self) -> None:
        # It exists if this box is the next boot of an earlier one.
        self.share.mkdir(parents=True, exist_ok=True)
        self._scratch.mkdir(exist_ok=True)
        self.share.chmod(0o755)
        with (self.share / "init.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*UNSHARE, *self._namespaces, "sh", "-c", INIT, "box", *self._words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._pid = self._wait_for_init()

    def __exit__(self, *_: object) -> None:
        # The end of the first process of a pid namespace kills all others in it.
        if self._process:
            self._process.kill()
            for process in (*self._started, self._process):
                process.wait()
        remove_cgroups(self._cgroup)

    def __call__(
        self, *words: str, user: str = "", check: bool = True, timeout: float = TIMEOUT
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the box, as root or as `user`; EngineError if it fails and `check` is true."""
        ended = subprocess.run(
            [*self._enter(), *_as_user(user), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and ended.returncode:
            raise EngineError(f"{' '.join(words)}: {ended.stdout}{ended.stderr}")
        return ended

    @property
    def _cgroup(self) -> str:
        return f"amd-box-{self._pid}"

    @property
    def pid(self) -> int:
        """Return the process id of the box's init on the machine."""
        return self._pid

    def start(self, *words: str) -> None:
        """Run a command in the background until the box ends; its output is in the share."""
        with (self.share / f"{words[0]}.log").open("wb") as log:
            process = subprocess.Popen([*self._enter(), *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._started.append(process)

    def write(self, path: str, content: bytes) -> None:
        """Write a file in the box."""
        subprocess.run(
            [*self._enter(), "sh", "-c", 'mkdir -p "${1%/*}" && cat >"$1"', "write", path], input=content, check=True
        )

    def wait_until(self, *words: str) -> None:
        """Repeat a command until it succeeds; EngineError if it does not within `TIMEOUT` seconds."""
        until = time.monotonic() + TIMEOUT
        while time.monotonic() < until:
            if self(*words, check=False).returncode == 0:
                return
            time.sleep(0.2)
        raise EngineError(f"{' '.join(words)} does not succeed: {self(*words, check=False).stderr}")

    def _enter(self) -> list[str]:
        return [
            *("nsenter", "--target", str(self._pid), *self._namespaces, "--"),
            *("env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8"),
        ]

    def _wait_for_init(self) -> int:
        assert self._process
        children = f"/proc/{self._process.pid}/task/{self._process.pid}/children"
        while self._process.poll() is None:
            pid = (Path(children).read_text() or "0").split()[0]
            if os.path.exists(f"/proc/{pid}/root/run/box-is-up"):
                return int(pid)
            time.sleep(0.02)
        raise EngineError(f"the box does not come up: {(self.share / 'init.log').read_text()}")


def add_user(box: Box) -> None:
    """Add the user without privileges, with everything that rootless engines need."""
    box("groupadd", "--non-unique", "--gid", f"{RENDER_GID}", "gpu-users")
    box("useradd", "--create-home", "--uid", "1100", "--groups", "gpu-users", USER)
    box("sh", "-c", f"for f in /etc/subuid /etc/subgid; do grep -q ^{USER}: $f || echo {USER}:200000:65536 >>$f; done")
    box("sh", "-c", f"mkdir -p /run/user/1100 && chown {USER}: /run/user/1100 && chmod 700 /run/user/1100")


def remove_cgroups(name: str) -> None:
    """Remove cgroups made in a box. They belong to the machine, and are busy until all processes have ended."""
    root = Path("/sys/fs/cgroup")
    found = [path for pattern in (f"{name}/**/", f"*/{name}/**/") for path in root.glob(pattern)]
    for path in sorted(found, reverse=True):
        for _ in range(50):
            with suppress(OSError):
                path.rmdir()
                break
            time.sleep(0.1)


def _as_user(user: str) -> list[str]:
    if not user:
        return []
    return [
        *("setpriv", "--reuid", user, "--regid", user, "--init-groups"),
        *("env", f"HOME=/home/{user}", f"USER={user}", "XDG_RUNTIME_DIR=/run/user/1100"),
        *("sh", "-c", 'cd && exec "$@"', "sh"),
    ]


def _node_lines(nodes: list[dict[str, int | str]]) -> str:
    # udev's own rules set mode 0660.
    return "\n".join(f"{node['path']} {node['major']} {node['minor']} 660 {node['gid']}" for node in nodes)


def nodes_of(spec: bytes) -> list[dict[str, int | str]]:
    """Return the device nodes of `all` in a CDI spec in JSON."""
    devices = {device["name"]: device for device in json.loads(spec)["devices"]}
    nodes: list[dict[str, int | str]] = devices["all"]["containerEdits"]["deviceNodes"]
    return nodes
