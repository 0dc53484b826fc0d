"""A registry that answers what a test says, and the proxy of a simulated host in front of it."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from hashlib import sha256
from http.client import HTTPConnection
from threading import Thread

import pytest

from amd_ctk.image_proxy.proxy import EngineConnection
from amd_ctk.image_proxy.serve import EngineServer
from amd_ctk.image_proxy.upstreams import Upstream
from amdgpu_discovery.simulate import build_host

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"
AMD64 = {"architecture": "amd64", "os": "linux"}


def digest_of(content):
    return f"sha256:{sha256(content).hexdigest()}"


class StandIn:
    """A registry: `answers` has the bytes for each path, or a function that is given the connection."""

    def __init__(self):
        self.answers = {}
        self.requests = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._run, daemon=True).start()

    def close(self):
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def say(self, path, content=b"", *headers, status="200 OK"):
        """Store an answer."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *headers]
        self.answers[path] = "\r\n".join([*lines, "", ""]).encode() + content

    def put(self, path, document, media_type=MANIFEST):
        """Store a document by its tag and its digest; return its descriptor."""
        content = json.dumps(document).encode()
        digest = digest_of(content)
        for place in (path, f"{path.rpartition('/')[0]}/{digest}"):
            self.say(place, content, f"Content-Type: {media_type}")
        return {"mediaType": media_type, "digest": digest, "size": len(content), "platform": AMD64}

    def put_index(self, path, *entries):
        return self.put(path, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)}, INDEX)

    def put_images(self, *targets):
        """Store /v2/app/manifests/1: an index of an image for each target; return the digests by target."""
        images = {target: self.put(f"/v2/app/manifests/{target}", {"of": target}) for target in targets}
        self.put_index("/v2/app/manifests/1", *(wants(image, target) for target, image in images.items()))
        return {target: image["digest"] for target, image in images.items()}

    def _run(self):
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, connection.makefile("rb") as file, suppress(OSError):
            while line := file.readline():
                method, path, _ = line.decode().split()
                head = [line, *iter(file.readline, b"\r\n")]
                self.requests.append(b"".join(head).decode())
                answer = self.answers.get(path.partition("?")[0], NOT_FOUND)
                if callable(answer):
                    answer(connection)
                    return
                connection.sendall(answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == "HEAD" else answer)


def wants(descriptor, target):
    return {**descriptor, "annotations": {"com.amd.gpu.require.gfx": f"gfx={target}"}}


@pytest.fixture
def registry():
    """Return a registry without anything."""
    running = StandIn()
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
