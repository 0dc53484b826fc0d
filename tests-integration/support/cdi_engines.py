"""Container engines in a box, each with the few commands that test CDI devices."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING

from support.box import USER
from support.docker import IMAGE

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from support.box import Box

RUNTIME = "/usr/bin/amd-container-runtime"
IMAGE_ARCHIVE = "/box/image.tar"
SEEN_OUTPUT = "--volume=/box/output:/output"
DAEMON_JSON = {"features": {"cdi": True}, "storage-driver": "vfs", "bridge": "none", "iptables": False}


class DockerInBox:
    """Docker, as root; `settings` go into daemon.json."""

    def __init__(self, box: Box, **settings: object) -> None:
        self.box = box
        self._output = box.share / "output"
        self._output.touch()
        self._output.chmod(0o666)
        box.write("/etc/docker/daemon.json", json.dumps({**DAEMON_JSON, **settings}).encode())
        box.start("dockerd", "--ip6tables=false")
        box.wait_until("docker", "version")
        box("docker", "import", "--change", 'CMD ["sh"]', IMAGE_ARCHIVE, IMAGE)

    def version(self) -> str:
        """Return the version of the daemon."""
        return self.box("docker", "version", "--format={{.Server.Version}}").stdout.partition("+")[0].strip()

    def run(self, device: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Run a command in a container with a device, to its end."""
        words = ("docker", "run", "--rm", "--network=none", *options, f"--device={device}", SEEN_OUTPUT, IMAGE)
        return self._with_output(*words, command=command)

    def run_and_exec(self, device: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Start a container with a device, and run a command in it with exec."""
        container = self.start(device, options=(*options, SEEN_OUTPUT))
        try:
            return self._with_output("docker", "exec", container, command=command)
        finally:
            self.remove(container)

    def start(self, device: str, *, options: tuple[str, ...] = ()) -> str:
        """Start a container with a device that stays; return its id."""
        words = ("run", "--detach", "--network=none", *options, f"--device={device}", IMAGE, "sleep", "600")
        return self.box("docker", *words).stdout.strip()

    def stop(self, container: str) -> None:
        """Stop a container, which may be started again."""
        self.box("docker", "stop", "--time=0", container)

    def start_again(self, container: str) -> CompletedProcess[str]:
        """Start a stopped container."""
        return self.box("docker", "start", container, check=False)

    def remove(self, container: str) -> None:
        """Stop and remove a container."""
        self.box("docker", "rm", "--force", container)

    def run_asking(self, gpus: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Run a command in a container that requests GPUs by environment, to its end."""
        words = ("docker", "run", "--rm", "--network=none", *options, _asking(gpus), SEEN_OUTPUT, IMAGE)
        return self._with_output(*words, command=command)

    def start_asking(self, gpus: str, *, options: tuple[str, ...] = ()) -> str:
        """Start a container that requests GPUs by environment and stays; return its id."""
        words = ("run", "--detach", "--network=none", *options, _asking(gpus), SEEN_OUTPUT, IMAGE, "sleep", "600")
        return self.box("docker", *words).stdout.strip()

    def exec(self, container: str, *command: str) -> CompletedProcess[str]:
        """Run a command in a container of `start_asking`."""
        return self._with_output("docker", "exec", container, command=command)

    def run_with_gpus(self, gpus: str, *command: str) -> CompletedProcess[str]:
        """Run a command in a container with GPUs from `--gpus`, to its end."""
        words = ("docker", "run", "--rm", "--network=none", "--gpus", gpus, SEEN_OUTPUT, IMAGE)
        return self._with_output(*words, command=command)

    def _with_output(self, *words: str, command: tuple[str, ...]) -> CompletedProcess[str]:
        """Run a command in a container, and read its output from a file.

        On a very busy machine, dockerd drops a container's output two seconds after its end. The client then succeeds
        with only part of the output, or none.
        """
        self._output.write_bytes(b"")
        ended = self.box(*words, "sh", "-c", 'exec "$@" >/output', "sh", *command, check=False)
        ended.stdout = self._output.read_text()
        return ended


class DockerWithRunc(DockerInBox):
    """Docker, in tests that also depend on the version of runc."""

    def version(self) -> str:
        """Return the versions of the daemon and of runc."""
        runc = self.box("runc", "--version").stdout.split()[2].partition("+")[0]
        return f"{super().version()}, runc {runc}"


class PodmanInBox:
    """Podman, as root or as a user without privileges."""

    def __init__(self, box: Box, *, user: str = "", runtime: str = "crun") -> None:
        self.box = box
        self._user = user
        settings = ("--cgroup-manager=cgroupfs", "--events-backend=file", "--storage-driver=vfs")
        self.words = ["podman", *settings, f"--runtime={runtime}"]
        box.write("/etc/containers/policy.json", json.dumps({"default": [{"type": "insecureAcceptAnything"}]}).encode())
        # The version 2 cgroups of a box lack this controller.
        box.write("/etc/containers/containers.conf", b"[containers]\npids_limit = 0\n")
        self._podman("import", "--quiet", "--change", 'CMD ["sh"]', IMAGE_ARCHIVE, IMAGE, check=True)

    def version(self) -> str:
        """Return the version of the engine."""
        return self._podman("--version").stdout.split()[-1]

    def run(self, device: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Run a command in a container with a device, to its end."""
        return self._podman("run", "--rm", "--network=none", *options, f"--device={device}", IMAGE, *command)

    def run_and_exec(self, device: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Start a container with a device, and run a command in it with exec."""
        container = self.start(device, options=options)
        try:
            return self._podman("exec", container, *command)
        finally:
            self.remove(container)

    def start(self, device: str, *, options: tuple[str, ...] = ()) -> str:
        """Start a container with a device that stays; return its id."""
        return self.start_plain(f"--device={device}", *options).stdout.strip()

    def start_plain(self, *options: str, check: bool = True) -> CompletedProcess[str]:
        """Start a container that stays."""
        return self._podman("run", "--detach", "--network=none", *options, IMAGE, "sleep", "600", check=check)

    def run_asking(self, gpus: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Run a command in a container that requests GPUs by environment, to its end."""
        return self._podman("run", "--rm", "--network=none", *options, _asking(gpus), IMAGE, *command)

    def start_asking(self, gpus: str, *, options: tuple[str, ...] = ()) -> str:
        """Start a container that requests GPUs by environment and stays; return its id."""
        return self.start_plain(_asking(gpus), *options).stdout.strip()

    def exec(self, container: str, *command: str) -> CompletedProcess[str]:
        """Run a command in a container."""
        return self._podman("exec", container, *command)

    def init_of(self, container: str) -> int:
        """Return the process id of a container's init in the box."""
        return int(self._podman("inspect", "--format={{.State.Pid}}", container, check=True).stdout)

    def stop(self, container: str) -> None:
        """Stop a container, which may be started again."""
        self._podman("stop", "--time=0", container, check=True)

    def start_again(self, container: str) -> CompletedProcess[str]:
        """Start a stopped container."""
        return self._podman("start", container)

    def remove(self, container: str) -> None:
        """Stop and remove a container."""
        self._podman("rm", "--force", "--time=0", container)

    def call(self, *words: str) -> CompletedProcess[str]:
        """Run a command of Podman, which must succeed."""
        return self._podman(*words, check=True)

    def _podman(self, *words: str, check: bool = False) -> CompletedProcess[str]:
        return self.box(*self.words, *words, user=self._user, check=check)


class RootlessPodmanInBox(PodmanInBox):
    """Podman of a user without privileges."""

    def __init__(self, box: Box) -> None:
        super().__init__(box, user=USER)


class ContainerdInBox:
    """containerd and its `ctr`, as root."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self._names = count()
        box.start("containerd")
        box.wait_until("ctr", "version")
        box.wait_until("ctr", "image", "ls")
        self._import()

    def version(self) -> str:
        """Return the version of the daemon."""
        return self.box("containerd", "--version").stdout.split()[2].partition("~")[0].partition("+")[0]

    def run(self, device: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Run a command in a container with a device, to its end."""
        words = ("run", "--rm", "--snapshotter=native", *options, f"--device={device}")
        return self.box("ctr", *words, IMAGE, f"box{next(self._names)}", *command, check=False)

    def run_and_exec(self, device: str, *command: str, options: tuple[str, ...] = ()) -> CompletedProcess[str]:
        """Start a container with a device, and run a command in it with exec."""
        name = self.start(device, options=options)
        user = [word for word in options if word.startswith("--user")]
        try:
            return self.box("ctr", "task", "exec", "--exec-id=one", *user, name, *command, check=False)
        finally:
            self.remove(name)

    def start(self, device: str, *, options: tuple[str, ...] = ()) -> str:
        """Start a container with a device that stays; return its id."""
        name = f"box{next(self._names)}"
        words = ("run", "--detach", "--snapshotter=native", *options, f"--device={device}")
        self.box("ctr", *words, IMAGE, name, "sleep", "600")
        return name

    def stop(self, container: str) -> None:
        """Stop a container, which may be started again."""
        self.box("ctr", "task", "kill", "--signal=9", container)
        self.box.wait_until("ctr", "task", "delete", container)

    def start_again(self, container: str) -> CompletedProcess[str]:
        """Start a stopped container."""
        return self.box("ctr", "task", "start", "--detach", container, check=False)

    def remove(self, container: str) -> None:
        """Stop and remove a container."""
        if container in self.box("ctr", "task", "ls", "--quiet").stdout.split():
            self.stop(container)
        self.box("ctr", "container", "delete", container)

    def start_asking(self, gpus: str) -> CompletedProcess[str]:
        """Start a container that requests GPUs from the AMD Container Runtime and stays; print its id."""
        name = f"box{next(self._names)}"
        script = 'ctr run --detach --snapshotter=native "$@" >&2 && echo "$0"'
        words = (f"--runc-binary={RUNTIME}", _asking(gpus), IMAGE, name, "sleep", "600")
        return self.box("sh", "-c", script, name, *words, check=False)

    def exec(self, container: str, *command: str) -> CompletedProcess[str]:
        """Run a command in a container."""
        return self.box("ctr", "task", "exec", "--exec-id=one", container, *command)

    def _import(self) -> None:
        """Import the image. ctr reads only OCI archives."""
        self.box("ctr", "image", "import", "--snapshotter=native", "--no-unpack", "/box/oci.tar")


def _asking(gpus: str) -> str:
    return f"--env=AMD_VISIBLE_DEVICES={gpus}"


def put_image(box: Box, archive: Path, oci_archive: Path) -> None:
    """Put the image where engines in a box find it."""
    (box.share / "image.tar").write_bytes(archive.read_bytes())
    (box.share / "oci.tar").write_bytes(oci_archive.read_bytes())
