"""One call of gRPC without parameters, over HTTP/2 on a Unix socket: enough for kubelet, and bounded for anything else.

gRPC's own library takes 300 ms to import. Headers of the answer are compressed and have nothing that is needed: a call
that fails has no message. So they are skipped, and the compression's table is switched off, so that nothing depends on
them (RFC 9113, RFC 7541; gRPC's "PROTOCOL-HTTP2").
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
from contextlib import suppress

from amdgpu_discovery.errors import ToolkitError, reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

CALL_SECONDS = 2.0
# kubelet's own limit for messages is 16 MiB; the pods of a node take some hundred kB.
LARGEST_ANSWER = 4 * 1024 * 1024
# More than the frames around that answer take.
LARGEST_STREAM = LARGEST_ANSWER + 256 * 1024
# The default of HTTP/2, which this client does not raise.
LARGEST_FRAME = 16384
CHUNK = 65536
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
HEADER_TABLE_SIZE, INITIAL_WINDOW_SIZE = 1, 4
STREAM = 1
# A message begins with whether it is compressed, and its length.
PREFIX = struct.Struct(">?I")
# From sys/socket.h: the process, user and group of the peer.
CREDENTIALS = struct.Struct("3i")


class CallFailed(ToolkitError):
    """A server does not answer as it should, or not in time."""


def call(path: str, method: str, *, seconds: float = CALL_SECONDS, owner: int = 0) -> bytes:
    """Return the message with which the server of a socket answers `method`; CallFailed.

    The socket is no link, and it and the server belong to `owner`.
    """
    end = time.monotonic() + seconds
    try:
        found = os.lstat(path)
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != owner:
            raise CallFailed(f"{path} is not a socket of user {owner}", hint="only kubelet should make it")
        with socket.socket(socket.AF_UNIX) as server:
            server.settimeout(seconds)
            server.connect(path)
            peer = CREDENTIALS.unpack(server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
            if peer[1] != owner:
                raise CallFailed(f"user {peer[1]} listens at {path}", hint="only kubelet should listen there")
            server.sendall(_request(method))
            return _message(_read_answer(server, end))
    except OSError as error:
        raise CallFailed(f"{path}: {reason(error)}", hint="see 'systemctl status kubelet'") from error


def _request(method: str) -> bytes:
    settings = struct.pack(">HIHI", HEADER_TABLE_SIZE, 0, INITIAL_WINDOW_SIZE, LARGEST_STREAM)
    window = struct.pack(">I", LARGEST_STREAM)
    # POST, http, and then a path, an authority and two headers, none of them kept in the table.
    headers = b"\x83\x86" + b"\x04" + _text(method) + b"\x01" + _text("localhost")
    headers += b"\x0f\x10" + _text("application/grpc") + b"\x00" + _text("te") + _text("trailers")
    return b"".join(
        (
            PREFACE,
            _frame(SETTINGS, 0, 0, settings),
            _frame(WINDOW_UPDATE, 0, 0, window),
            _frame(HEADERS, END_HEADERS, STREAM, headers),
            _frame(DATA, END_STREAM, STREAM, PREFIX.pack(False, 0)),
        )
    )


def _text(text: str) -> bytes:
    """Return a short text as HPACK writes it, without Huffman's code."""
    return bytes((len(text),)) + text.encode("ascii")


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _read_answer(server: socket.socket, end: float) -> bytes:
    """Return the data of the stream; CallFailed if it is reset."""
    data = bytearray()
    for kind, flags, stream, payload in _frames(server, end):
        if kind == SETTINGS and not flags & ACK:
            _confirm(server, _frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            _confirm(server, _frame(PING, ACK, 0, payload))
        elif kind in (RST_STREAM, GOAWAY):
            raise CallFailed("the server ends the call", hint="see 'systemctl status kubelet'")
        elif kind == DATA and stream == STREAM:
            data += payload[1 : len(payload) - payload[0]] if flags & PADDED and payload else payload
        if kind in (DATA, HEADERS) and stream == STREAM and flags & END_STREAM:
            return bytes(data)
    raise CallFailed("the server ends the connection", hint="see 'systemctl status kubelet'")


def _confirm(server: socket.socket, frame: bytes) -> None:
    """Send a confirmation. A server that has closed may have sent its whole answer before."""
    with suppress(BrokenPipeError, ConnectionResetError):
        server.sendall(frame)


def _frames(server: socket.socket, end: float) -> Iterator[tuple[int, int, int, bytes]]:
    """Yield kind, flags, stream and payload of each frame, for a bounded time and up to a bounded size."""
    buffer = bytearray()
    total = 0
    while True:
        while len(buffer) >= 9:
            length = int.from_bytes(buffer[:3], "big")
            if length > LARGEST_FRAME:
                raise CallFailed("a frame of the server is too long", hint="see 'systemctl status kubelet'")
            if len(buffer) < 9 + length:
                break
            kind, flags, stream = struct.unpack(">BBI", buffer[3:9])
            yield kind, flags, stream & 0x7FFFFFFF, bytes(buffer[9 : 9 + length])
            del buffer[: 9 + length]
        left = end - time.monotonic()
        if left <= 0 or total > LARGEST_STREAM:
            raise CallFailed("the server does not come to an end", hint="see 'systemctl status kubelet'")
        server.settimeout(left)
        chunk = server.recv(CHUNK)
        if not chunk:
            return
        buffer += chunk
        total += len(chunk)


def _message(data: bytes) -> bytes:
    if len(data) < PREFIX.size:
        raise CallFailed("the server does not know the method", hint="kubelet has it since Kubernetes 1.28")
    is_compressed, length = PREFIX.unpack_from(data)
    if is_compressed or length != len(data) - PREFIX.size or length > LARGEST_ANSWER:
        raise CallFailed("the message of the server is not whole", hint="see 'systemctl status kubelet'")
    return data[PREFIX.size :]
