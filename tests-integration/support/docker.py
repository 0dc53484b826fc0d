"""A separate Docker engine: dockerd and containerd with their own sockets and data, and the `amd` runtime."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

# Without its own bridge and rules, dockerd does not change the machine's network. It warns at every container if
# packets are not forwarded, as on most machines, so it runs in its own network with forwarding.
NO_NETWORK = ("--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false")
OWN_NETWORK = ("unshare", "--net", "sh", "-c", 'echo 1 >/proc/sys/net/ipv4/ip_forward && exec "$@"', "sh")
IMAGE = "busybox:local"
# The second plugin would make a directory in /opt.
CONTAINERD_CONFIG = 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]\n'
# Docker 20.10 writes this when it starts, wherever its data is.
KEY = Path("/etc/docker/key.json")
# Long enough for a busy machine.
TIMEOUT = 180.0


class EngineError(Exception):
    """A command of an engine failed."""


class Docker:
    """An engine in a directory; `start` it, call it as the `docker` command, and `stop` it.

    `host_root` is the simulated host that the runtime serves, "/" for this machine. The engine's directory is made in
    `parent`; `settings` go into daemon.json.
    """

    # Prefix of the daemons' commands, and dockerd's network options. An engine with its own network overrides them.
    under: tuple[str, ...] = OWN_NETWORK
    network_options: tuple[str, ...] = NO_NETWORK
    # Further options of dockerd.
    daemon_options: tuple[str, ...] = ()

    def __init__(self, runtime: Path, host_root: str = "/", parent: str = "/tmp", /, **settings: object) -> None:
        # Not below pytest's directories, because a socket's path is limited to 107 characters.
        self.directory = Path(tempfile.mkdtemp(prefix="amd-docker-", dir=parent))
        self.host_root = host_root
        self.socket = self.directory / "docker.sock"
        self._had_key = KEY.exists()
        self._processes: list[subprocess.Popen[bytes]] = []
        configuration = {"runtimes": {"amd": {"path": os.fspath(runtime)}}, "storage-driver": "vfs", **settings}
        (self.directory / "daemon.json").write_text(json.dumps(configuration))
        (self.directory / "containerd.toml").write_text(CONTAINERD_CONFIG)

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a `docker` command to its end and return its result; EngineError if it fails and `check` is true."""
        ended = subprocess.run(
            ["docker", "-H", f"unix://{self.socket}", *words],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        if check and ended.returncode != 0:
            raise EngineError(f"docker {' '.join(words)}: {ended.stderr}")
        return ended

    def output(self, *words: str, image: str = IMAGE, command: tuple[str, ...]) -> str:
        """Run a command in a container that is removed at its end; return the output.

        The output comes from a file. On a very busy machine, dockerd drops a container's output two seconds after its
        end. The client then succeeds with only part of the output, or none.
        """
        written = self.directory / "output"
        written.write_bytes(b"")
        # The root of a user namespace is another user.
        written.chmod(0o666)
        options = ("--rm", f"--volume={written}:/output", *words)
        self("run", *options, image, "sh", "-c", 'exec "$@" >/output', "sh", *command)
        return written.read_text()

    @property
    def containerd(self) -> subprocess.Popen[bytes]:
        return self._processes[0]

    @property
    def dockerd(self) -> subprocess.Popen[bytes]:
        return self._processes[1]

    @property
    def log(self) -> str:
        """The output of both daemons so far."""
        return (self.directory / "engine.log").read_text()

    def start(self, *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Start both daemons, also after `halt` or a kill, and wait until they answer; `meanwhile` may raise."""
        at = self.directory
        (at / "containerd.sock").unlink(missing_ok=True)
        self._spawn(
            *("containerd", "--config", f"{at}/containerd.toml", "--address", f"{at}/containerd.sock"),
            *("--root", f"{at}/containerd", "--state", f"{at}/run/containerd"),
        )
        self._wait_for("containerd", (at / "containerd.sock").is_socket, meanwhile)
        self._spawn(
            *("dockerd", "--config-file", f"{at}/daemon.json", "--host", f"unix://{self.socket}"),
            *self.network_options,
            *self.daemon_options,
            *(
                "--containerd",
                f"{at}/containerd.sock",
                "--data-root",
                f"{at}/docker",
                "--exec-root",
                f"{at}/run/docker",
            ),
            *("--pidfile", f"{at}/docker.pid"),
        )
        self._wait_for("dockerd", lambda: self("version", check=False).returncode == 0, meanwhile)

    def halt(self) -> None:
        """Stop both daemons cleanly, dockerd first; data on the disk stays for the next `start`."""
        while self._processes:
            process = self._processes.pop()
            process.terminate()
            process.wait()

    def stop(self) -> None:
        """Remove every container, stop the daemons and delete all files."""
        if len(self._processes) == 2:
            containers = self("ps", "-aq", check=False).stdout.split()
            if containers:
                self("rm", "-f", *containers, check=False)
        self.halt()
        if not self._had_key:
            KEY.unlink(missing_ok=True)
        _unmount_below(self.directory)
        shutil.rmtree(self.directory)

    def import_image(self, archive: Path, name: str = IMAGE, command: str = '["sh"]') -> None:
        """Import an image from a packed root file system, without a registry."""
        self("import", "--change", f"CMD {command}", os.fspath(archive), name)

    def _spawn(self, *words: str) -> None:
        environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin"}
        environment.pop("AMD_CTK_HOST_ROOT", None)
        if self.host_root != "/":
            environment["AMD_CTK_HOST_ROOT"] = self.host_root
        with (self.directory / "engine.log").open("ab") as log:
            # A separate session, so that Ctrl-C ends the tests first, which then stop the daemons cleanly.
            process = subprocess.Popen(
                [*self.under, *words], stdout=log, stderr=log, env=environment, start_new_session=True
            )
        self._processes.append(process)

    def _wait_for(self, name: str, answers: Callable[[], bool], meanwhile: Callable[[], None]) -> None:
        until = time.monotonic() + TIMEOUT
        while not answers():
            meanwhile()
            if self._processes[-1].poll() is not None or time.monotonic() > until:
                raise EngineError(f"{name} does not answer; it said:\n{self.log[-3000:]}")
            time.sleep(0.05)


def _unmount_below(directory: Path) -> None:
    """Unmount everything that the daemons left mounted, deepest first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((p for p in points if p.startswith(f"{directory}/")), reverse=True):
        subprocess.run(["umount", "-l", point], check=False)
