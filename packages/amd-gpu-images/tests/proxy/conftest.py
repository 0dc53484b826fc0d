"""The proxy of a simulated host in front of a registry that answers what a test says."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from http.client import HTTPConnection
from threading import Thread

import pytest

from amd_gpu_images.proxy.proxy import EngineConnection
from amd_gpu_images.proxy.serve import EngineServer
from amd_gpu_images.proxy.upstreams import Upstream
from amdgpu_simulator import build_host
from support.stand_in_registry import StandInRegistry


@pytest.fixture
def registry():
    """Return a registry without anything."""
    running = StandInRegistry()
    yield running
    running.close()


class Proxy:
    """The proxy of a host in front of a registry."""

    def __init__(self, host, registry):
        upstream = Upstream(registry=registry.address, address=registry.address, is_secure=False, port=1)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        connection = type("Connection", (EngineConnection,), {"host": host, "upstream": upstream})
        Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection):
        with suppress(OSError):
            EngineServer(self._listener, connection).run()

    def __call__(self, path, method="GET", **headers):
        """Ask the proxy; return the status, the headers and the content."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def raw(self, text):
        """Send a request as it stands; return the answer until its end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(text.encode())
            return b"".join(iter(lambda: connection.recv(4096), b""))

    def message(self, path):
        """Return the status and the sentence of a refusal."""
        status, _, content = self(path)
        return status, json.loads(content)["errors"][0]["message"]

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def start(registry, tmp_path):
    """Return a function that starts the proxy of a host with GPUs of a profile."""
    started = []

    def start(profile):
        started.append(Proxy(build_host(tmp_path / profile, profile), registry))
        return started[-1]

    yield start
    for each in started:
        each.close()


@pytest.fixture
def proxy(start):
    """Return the proxy of a host with four MI210, which are gfx90a."""
    return start("mi210-4")
