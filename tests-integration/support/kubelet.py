"""A kubelet that lists its pods, and what it sends: frames of HTTP/2, and messages of its PodResources API."""

from __future__ import annotations

import os
import socket
import struct
import threading
from contextlib import suppress

from amdgpu_discovery.host import Host

# What a client of gRPC begins with, by RFC 9113.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def data(message: bytes, flags: int = 0) -> bytes:
    return frame(0, flags, 1, message)


def answer_with(message: bytes) -> bytes:
    """Return what a server of gRPC sends: its settings, headers, the message in pieces, and trailers."""
    whole = struct.pack(">?I", False, len(message)) + message
    pieces = [whole[at : at + 16384] for at in range(0, len(whole), 16384)]
    return SETTINGS + frame(1, 4, 1, b"\x88") + b"".join(map(data, pieces)) + frame(1, 5, 1, b"\x00\x01a\x01b")


def field(number: int, value: str | bytes) -> bytes:
    """Return a field of Protocol Buffers with a length."""
    content = value.encode() if isinstance(value, str) else value
    length = len(content)
    size = bytes((length,)) if length < 128 else bytes((length & 0x7F | 0x80, length >> 7))
    return bytes((number << 3 | 2,)) + size + content


def pod(name: str, *containers: bytes, namespace: str = "team-a") -> bytes:
    return field(1, field(1, name) + field(2, namespace) + b"".join(field(3, each) for each in containers))


def container(name: str, *devices: str, resource: str = "amd.com/gpu") -> bytes:
    return field(1, name) + field(2, field(1, resource) + b"".join(field(2, each) for each in devices))


def claimed(name: str, cdi: str) -> bytes:
    claim = field(1, field(1, cdi)) + field(2, "gpu.amd.com")
    return field(1, name) + field(5, field(2, "one-gpu") + field(3, "team-a") + field(4, claim))


class Kubelet:
    """A kubelet that gives `devices` to the pod team-a/train-0."""

    def __init__(self, host: Host) -> None:
        path = host.path("/var/lib/kubelet/pod-resources")
        os.makedirs(path)
        self.devices: tuple[str, ...] = ()
        self.calls = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{path}/kubelet.sock")
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            with connected, suppress(OSError):
                connected.recv(65536)
                self.calls += 1
                connected.sendall(answer_with(pod("train-0", container("main", *self.devices))))
                connected.shutdown(socket.SHUT_WR)
                # Until the client has closed.
                while connected.recv(65536):
                    pass

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
