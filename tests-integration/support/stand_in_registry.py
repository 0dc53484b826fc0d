"""A registry with answers that a test defines, including wrong and endless ones."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from typing import Any

from support.registry import INDEX, MANIFEST, digest_of

NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"
AMD64 = {"architecture": "amd64", "os": "linux"}
# Bytes, or a function that answers on a connection, which then ends.
ScriptedAnswer = bytes | Callable[[socket.socket], object]


class StandInRegistry:
    """A registry; `answers` has its answer for each path."""

    def __init__(self) -> None:
        self.answers: dict[str, ScriptedAnswer] = {}
        self.requests: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        Thread(target=self._run, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def put_content(self, path: str, content: bytes = b"", *headers: str, status: str = "200 OK") -> None:
        """Store an answer."""
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(content)}", *headers]
        self.answers[path] = "\r\n".join([*lines, "", ""]).encode() + content

    def put(self, path: str, document: dict[str, Any], media_type: str = MANIFEST) -> dict[str, Any]:
        """Store a document under its tag and its digest; return its descriptor."""
        content = json.dumps(document).encode()
        digest = digest_of(content)
        for place in (path, f"{path.rpartition('/')[0]}/{digest}"):
            self.put_content(place, content, f"Content-Type: {media_type}")
        return {"mediaType": media_type, "digest": digest, "size": len(content), "platform": AMD64}

    def put_index(self, path: str, *entries: dict[str, Any]) -> dict[str, Any]:
        """Store an index of images."""
        return self.put(path, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(entries)}, INDEX)

    def put_images(self, *targets: str) -> dict[str, str]:
        """Store /v2/app/manifests/1: an index with an image for each target; return the digests by target."""
        images = {target: self.put(f"/v2/app/manifests/{target}", {"of": target}) for target in targets}
        self.put_index("/v2/app/manifests/1", *(made_for(target, image) for target, image in images.items()))
        return {target: image["digest"] for target, image in images.items()}

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
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


def made_for(target: str, image: dict[str, Any]) -> dict[str, Any]:
    """Return the descriptor of an image for a target, as an index has it."""
    return {**image, "annotations": {"com.amd.gpu.require.gfx": f"gfx={target}"}}
