"""A Debian system that boots and believes to be a GPU server: nodes of GPUs in /dev, and a /sys that has them."""

from __future__ import annotations

import shutil
from pathlib import Path

from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.simulate import build_host
from support.debian_root import people_root
from support.debs import META_PACKAGE, build_debs
from support.podman import OF_BOOTED_SYSTEM
from support.system import System

LOGIN = ("systemd-logind.service",)
# What GPUs have in /sys goes over the kernel's own; the nodes have numbers that no driver of this machine has.
HARDWARE = """
mkdir /run/cgroups
mount --bind /sys/fs/cgroup /run/cgroups
mount -t overlay sys -o ro,lowerdir=/run/shared/host/sys:/sys /sys
mount --bind /run/cgroups /sys/fs/cgroup
# That of a machine is open; this one is a temporary directory's.
chmod 755 /sys/fs/cgroup
# Users may mount /proc and /sys for their containers only where they see a whole one.
mkdir -p /run/whole/proc /run/whole/sys /dev/dri /dev/net
mount -t proc proc /run/whole/proc
mount -t sysfs -o ro sysfs /run/whole/sys
mknod -m 666 /dev/fuse c 10 229
mknod -m 666 /dev/net/tun c 10 200
"""
# Nothing is behind the nodes, which the kernel says (ENXIO) of one that may be opened.
TRY_OPEN = """\
#!/usr/bin/python3
import errno, os, sys
for path in sys.argv[1:]:
    try:
        os.close(os.open(path, os.O_RDWR))
        said = "opens"
    except OSError as error:
        said = {errno.ENXIO: "allowed", errno.ENODEV: "allowed"}.get(error.errno, errno.errorcode[error.errno])
    print(path.rpartition("/")[2], said, flush=True)
"""


# With a network of its own a service gets another /sys, too: the kernel's, over which nothing was put.
DROP_IN = "[Service]\nPrivateNetwork=no\n"


class GpuServer(System):
    """Four MI210, the toolkit, and the users alice and bob."""

    def __init__(self, directory: Path, suite: str) -> None:
        super().__init__(directory / "system", people_root(suite), unmasked=LOGIN)
        host = build_host(self.shared / "host", "mi210-4")
        self.run(HARDWARE)
        for path, number in _nodes(host):
            self.run(f"mknod -m 660 {path} c {number}; chgrp render {path}")
        self.write("/usr/local/bin/try-open", TRY_OPEN)
        self.write("/etc/systemd/system/amd-gpu-tracker.service.d/hardware.conf", DROP_IN)
        for deb in build_debs(directory / "debs").glob("*.deb"):
            if not deb.name.startswith(META_PACKAGE):
                shutil.copy(deb, self.shared)
        self.install()
        self.run("chmod 755 /usr/local/bin/try-open /run/shared; rm -f /usr/sbin/policy-rc.d")
        for user in ("alice", "bob"):
            self.run(f"useradd --create-home --groups render --shell /bin/sh {user}")

    def install(self) -> None:
        """Install the toolkit."""
        self.run("dpkg --force-unsafe-io --install /run/shared/*.deb")

    def as_user(self, user: str, command: str, *, check: bool = True) -> str:
        """Run a command as a user outside of any session; return what it prints."""
        environment = f"HOME=/home/{user} XDG_RUNTIME_DIR=/run/user/$(id -u {user})"
        words = f"env {environment} setpriv --reuid={user} --regid={user} --init-groups"
        return self.run(f"cd /home/{user}; {words} {command}", check=check)

    def log_in(self, user: str, script: str) -> str:
        """Run a script in a session of a user, as after a login, in the background; return its unit."""
        unit = f"login-{user}"
        options = f"--unit={unit} --uid={user} --property=PAMName=login --setenv=HOME=/home/{user} --collect"
        self.write(f"/run/{unit}", script)
        self.run(f"systemd-run --quiet {options} sh /run/{unit}")
        return f"{unit}.service"

    def put_image(self, archive: Path, user: str) -> None:
        """Give rootless Podman of a user the image busybox:local."""
        shutil.copy(archive, self.shared / "image.tar")
        for path, text in OF_BOOTED_SYSTEM.items():
            self.write(path, text)
        self.run("rm -f /etc/containers/storage.conf; chmod 644 /run/shared/image.tar")
        self.as_user(user, "podman import --quiet /run/shared/image.tar busybox:local")


def _nodes(host: Host) -> list[tuple[str, str]]:
    kfd = host.read_attribute("/sys/class/kfd/kfd/dev").replace(":", " ")
    found = [("/dev/kfd", kfd)]
    for gpu in locate_gpus(host):
        found += [(gpu.render_path, f"226 {gpu.render_minor}"), (f"{gpu.card_path}", f"226 {gpu.card_minor}")]
    return found
