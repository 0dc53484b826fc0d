"""A separate proxy in front of a registry, started like by systemd with a socket that already listens."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

from amdgpu_discovery.host import Host
from support.installed import our_program

UNIT = Path(__file__).parents[2] / "packaging/systemd/amd-ctk-images@.service"
# Does what systemd does: the socket is descriptor 3, and the variables name the process itself.
STARTER = 'exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'


class ImageProxy:
    """The proxy of a host; engines use `address`. `stop` ends it."""

    def __init__(self, host: Host, url: str, *, certificate: Path | None = None) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        settings = Path(host.path("/etc/amd-container-toolkit/images.toml"))
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(f'{self.port} = "{url}"\n')
        self._environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": host.root, **_environment_of_unit()}
        if certificate:
            self._environment["SSL_CERT_FILE"] = os.fspath(certificate)
        self.start()

    def start(self) -> None:
        """Start the program on the socket."""
        program = os.fspath(our_program("amd-ctk"))
        words = ["sh", "-c", STARTER, "sh", program, "image", "serve", str(self.port)]
        self.process = subprocess.Popen(
            words, stdin=self._listener.fileno(), env=self._environment, start_new_session=True
        )

    @property
    def most_memory(self) -> int:
        """Return the peak memory of the program in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))

    def stop(self) -> None:
        """End the program, and close the socket."""
        self.process.terminate()
        self.process.wait()
        self._listener.close()


def _environment_of_unit() -> dict[str, str]:
    lines = UNIT.read_text(encoding="utf-8").splitlines()
    return dict(line.removeprefix("Environment=").split("=", 1) for line in lines if line.startswith("Environment="))
