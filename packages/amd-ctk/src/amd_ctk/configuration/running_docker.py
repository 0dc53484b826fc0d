"""Take a runtime that is about to be removed out of a running Docker's default, so that containers keep starting.

dockerd keeps its default runtime when it reloads a file without `default-runtime`, and Docker 20.10 ends in a panic if
its default is no longer among the runtimes. So it first reloads the old file with another default.
"""

from __future__ import annotations

import os
import signal
import socket
import time
from http.client import HTTPConnection, HTTPException

from amd_ctk.configuration.apply import Target
from amd_ctk.configuration.edit import read_text
from amd_ctk.configuration.engine import is_amd_runtime
from amd_ctk.configuration.ledger import Ledger, ledger_directory
from amd_ctk.configuration.plan import unset_default
from amdgpu_discovery.command_line.json_parts import object_at
from amdgpu_discovery.command_line.programs import LARGEST_OUTPUT, parse_object
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.files import remove_file, replace_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

PROGRAM = "dockerd"
BUILT_IN = "runc"
# A loaded machine may be slow to answer.
DOCKER_SECONDS = 10.0
PAUSE = 0.1


class DefaultRemains(ToolkitError):
    """Docker still has the runtime as its default."""


class RunningDocker(Value):
    """The addresses of a dockerd; the defaults are those of root's Docker."""

    socket: str = "/run/docker.sock"
    pid_file: str = "/run/docker.pid"

    def default_of_ours(self) -> str:
        """Return the name of the default runtime if it runs amd-container-runtime, otherwise ""."""
        engine_info = self._info()
        name = str(engine_info.get("DefaultRuntime") or "")
        return name if is_amd_runtime(str(object_at(engine_info, "Runtimes", name).get("path", ""))) else ""

    def reload(self) -> bool:
        """Let dockerd read its file again; False if its process is not found."""
        try:
            pid = int(read_plain_file(self.pid_file, largest=32)[0])
            if read_plain_file(f"/proc/{pid}/comm", largest=32)[0].strip() != PROGRAM.encode():
                return False
            os.kill(pid, signal.SIGHUP)
        except (OSError, ValueError):
            return False
        return True

    def _info(self) -> dict[str, Any]:
        """Return what Docker says of itself, {} if it does not run. The command `docker` may not be installed."""
        connection = _UnixConnection(self.socket)
        try:
            connection.request("GET", "/info")
            engine_info = parse_object(connection.getresponse().read(LARGEST_OUTPUT).decode("utf-8", "replace"))
        except (OSError, HTTPException):
            return {}
        finally:
            connection.close()
        # Podman answers as Docker does, and says who it is.
        return {} if "BuildahVersion" in engine_info else engine_info


class _UnixConnection(HTTPConnection):
    """A connection to a server at a path."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=DOCKER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(DOCKER_SECONDS)
        self.sock.connect(self._path)


def release_default(
    target: Target, name: str, environment: Mapping[str, str], docker: RunningDocker | None = None
) -> bool:
    """Give Docker another default if its default is the runtime `name`; return whether it was. DefaultRemains.

    The file is afterwards as before.
    """
    docker = docker or RunningDocker()
    if docker.default_of_ours() != name:
        return False
    old = read_text(target.file)
    _write(target, _with_next_default(target, old, name, environment))
    try:
        done = docker.reload() and _has_other_default(docker, name)
    finally:
        _restore(target, old)
    if not done:
        raise DefaultRemains(
            f"{name} is still Docker's default runtime",
            hint="remove it from the command line of dockerd, if it is there, and restart Docker",
        )
    return True


def _with_next_default(target: Target, old: str | None, name: str, environment: Mapping[str, str]) -> str:
    """Return the text of the file with the default that Docker has after the removal."""
    engine = target.engine
    document = engine.read(engine.new_text if old is None else old)
    changes = Ledger(ledger_directory(target.host, environment)).get(target.file.shown).changes
    layout = engine.find_layout(document)
    following = layout.default_in(unset_default(document, engine, name, changes)[0])
    return document.set(layout.default_runtime, following or BUILT_IN).text


def _has_other_default(docker: RunningDocker, name: str) -> bool:
    end = time.monotonic() + DOCKER_SECONDS
    while docker.default_of_ours() == name:
        if time.monotonic() > end:
            return False
        time.sleep(PAUSE)
    return True


def _write(target: Target, text: str) -> None:
    replace_file(os.path.realpath(target.file.path), text.encode())


def _restore(target: Target, old: str | None) -> None:
    if old is None:
        remove_file(os.path.realpath(target.file.path))
    else:
        _write(target, old)
