"""The stand: a Debian system that boots and is a GPU server, with the toolkit installed as by users.

apt installs our debs from a repository of this checkout; units, users and paths are as shipped. GPUs of a profile
overlay /sys, and their nodes are in /dev, where all programs look for them. Only `DROP_IN` changes our units.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_simulator import build_host
from amdgpu_simulator.runs.breaking import break_gpu
from support.apt_repository import AptRepository, keep, next_version
from support.box import TIMEOUT
from support.debian_root import people_root
from support.debs import build_debs
from support.podman import BOOTED_SYSTEM_FILES
from support.shell import Shell
from support.system import System

if TYPE_CHECKING:
    from collections.abc import Callable

LOGIN = ("systemd-logind.service",)
# The GPUs' files overlay the kernel's own /sys. The nodes have numbers that no driver of this machine uses.
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
GPUS_PATH = "/usr/local/lib/stand-gpus"
GPUS_UNIT = f"""\
[Unit]
DefaultDependencies=no
Before=sysinit.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -e {GPUS_PATH}
[Install]
WantedBy=sysinit.target
"""
# The nodes have no driver, so opening one that is permitted fails with ENXIO.
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
# With its own network, a service also gets another /sys: the kernel's, without the overlay. systemd reads this drop-in
# for every unit whose name begins with amd-.
DROP_IN_PATH = "/etc/systemd/system/amd-.service.d/stand.conf"
DROP_IN = "[Service]\nPrivateNetwork=no\n"
# Docker would write to /proc/sys, which belongs to the machine.
DOCKER_PATH = "/etc/systemd/system/docker.service.d/stand.conf"
DOCKER = "[Service]\nEnvironment=DOCKER_ALLOW_IPV6_ON_IPV4_INTERFACE=1\n"
APT = "apt-get -qq -y -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-unsafe-io"
# Update only from our repository, because the archive cannot be reached from here.
ONLY_OURS = "-o Dir::Etc::sourcelist=sources.list.d/toolkit.list -o Dir::Etc::sourceparts=- -o APT::Get::List-Cleanup=0"


class Stand(System):
    """A machine with GPUs of a profile, the toolkit, and the users alice and bob."""

    def __init__(self, directory: Path, suite: str, *, profile: str = "mi210-4", root: Path | None = None) -> None:
        """Boot a release, or another `root` of it in which people log in."""
        super().__init__(directory / "system", root or people_root(suite), unmasked=LOGIN)
        self._directory = directory
        self._host = build_host(self.shared / "host", profile)
        self._put_gpus()
        self.write("/usr/local/bin/try-open", TRY_OPEN)
        self.write(DROP_IN_PATH, DROP_IN)
        self.write(DOCKER_PATH, DOCKER)
        # Packages may start services here.
        self.run("chmod 755 /usr/local/bin/try-open /run/shared; rm -f /usr/sbin/policy-rc.d")
        for user in ("alice", "bob"):
            self.run(f"useradd --create-home --groups render --shell /bin/sh {user}")
        self._offer(build_debs(directory / "debs"))
        self.install()

    def install(self, packages: str = "amd-container-toolkit") -> None:
        """Install packages, including installed ones again."""
        self.apt(f"install --reinstall {packages}")

    def change_to(self, version: str) -> None:
        """Install another version, also an earlier one, of all installed packages."""
        names = self.run(
            "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' 'amd*' | awk '$2 == \"installed\" { print $1 }'"
        )
        self.apt(f"install --allow-downgrades {' '.join(f'{name}={version}' for name in names.split())}")

    def apt(self, words: str) -> str:
        """Run apt-get without questions; return its output."""
        return self.run(f"{APT} {words} 2>&1")

    @property
    def version(self) -> str:
        """Return the version of this checkout."""
        return next((self._directory / "debs").glob("amd-ctk_*.deb")).name.split("_")[1]

    def release(self, version: str, *, edit: Callable[[Path], None] = keep) -> None:
        """Publish another version of all packages; `edit` changes the files of each."""
        debs = sorted((self._directory / "debs").glob("*.deb"))
        self._repository.add(next_version(debs, self._directory / version, old=self.version, new=version, edit=edit))
        self.apt(f"update {ONLY_OURS}")

    def as_user(self, user: str, command: str, *, check: bool = True) -> str:
        """Run a command as a user outside any session; return its output."""
        environment = f"HOME=/home/{user} XDG_RUNTIME_DIR=/run/user/$(id -u {user})"
        words = f"env {environment} setpriv --reuid={user} --regid={user} --init-groups"
        return self.run(f"cd /home/{user}; {words} {command}", check=check)

    def log_in(self, user: str, script: str) -> str:
        """Run a script in a user's session, as after a login, in the background; return its unit."""
        unit = f"login-{user}"
        options = f"--unit={unit} --uid={user} --property=PAMName=login --setenv=HOME=/home/{user} --collect"
        self.write(f"/run/{unit}", script)
        self.run(f"systemd-run --quiet {options} sh /run/{unit}")
        return f"{unit}.service"

    def open_shell(self, user: str) -> Shell:
        """Open a shell as in a terminal in which a user has logged in."""
        session = ["systemd-run", "--quiet", "--pipe", "--wait", "--collect", f"--unit=shell-{user}"]
        # crun 1.8 sets this limit, which root may not raise here.
        session.append("--property=LimitMEMLOCK=infinity")
        login = [f"--uid={user}", "--property=PAMName=login", f"--working-directory=/home/{user}"]
        return Shell(Path("/"), {"PATH": "/usr/bin:/bin"}, enter=[*self.enter(), *session, *login], patience=TIMEOUT)

    def configure_podman(self) -> None:
        """Configure Podman for this system, which cannot grant all its defaults to containers."""
        for path, text in BOOTED_SYSTEM_FILES.items():
            self.write(path, text)
        self.run("rm -f /etc/containers/storage.conf")

    def put_image(self, archive: Path, user: str = "root") -> None:
        """Import the image busybox:local into a user's Podman."""
        shutil.copy(archive, self.shared / "image.tar")
        self.run("chmod 644 /run/shared/image.tar")
        self.configure_podman()
        words = "podman import --quiet /run/shared/image.tar busybox:local"
        if user == "root":
            self.run(f"{words} 2>&1")
        else:
            self.as_user(user, words)

    def journal_of(self, unit: str) -> str:
        """Return the journal of a unit."""
        return self.run(f"journalctl --no-pager --unit={unit} --output=cat")

    def break_gpu(self, number: int, fault: str) -> None:
        """Break a GPU like `amd-ctk simulate break`."""
        before = {path for path, _ in _nodes(self._host)}
        break_gpu(self._host, number, fault)
        # The kernel removes the nodes of a lost GPU.
        if gone := before.difference(path for path, _ in _nodes(self._host)):
            self.run(f"rm {' '.join(gone)}")

    def cut_power(self) -> None:
        """End everything at once, lose the contents of memory, and boot again; the kernel and its boot id stay."""
        self._put_gpus(at_boot=True)
        self.kill()
        self.boot()

    def _put_gpus(self, *, at_boot: bool = False) -> None:
        """Add the GPUs to /sys and /dev now, or at the next boot before any service starts, like drivers."""
        nodes = (f"mknod -m 660 {path} c {number}; chgrp render {path}\n" for path, number in _nodes(self._host))
        self.write(GPUS_PATH, HARDWARE + "".join(nodes))
        if at_boot:
            self.write("/etc/systemd/system/stand-gpus.service", GPUS_UNIT)
            self.run("systemctl enable --quiet stand-gpus.service")
        else:
            self.run(f"sh -e {GPUS_PATH}")

    def _offer(self, directory: Path) -> None:
        self._repository = AptRepository(self.shared / "repository", self._directory / "gnupg")
        self._repository.add(sorted(directory.glob("*.deb")))
        self.write("/etc/apt/sources.list.d/toolkit.list", self._repository.source_line("/run/shared/repository"))
        self.apt(f"update {ONLY_OURS}")


def wait_until(condition: Callable[[], object]) -> None:
    """Repeat a check until it is true."""
    end = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < end, "what was waited for did not come"
        time.sleep(0.1)


def _nodes(host: Host) -> list[tuple[str, str]]:
    kfd = host.read_attribute("/sys/class/kfd/kfd/dev").replace(":", " ")
    found = [("/dev/kfd", kfd)]
    for gpu in locate_gpus(host):
        found += [(gpu.render_path, f"226 {gpu.render_minor}"), (f"{gpu.card_path}", f"226 {gpu.card_minor}")]
    return found
