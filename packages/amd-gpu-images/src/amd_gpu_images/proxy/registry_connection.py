"""Send requests to a registry over HTTP, one after another, with limits for slow, endless and broken answers."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from socket import SHUT_RDWR, socket
from threading import Timer

from amd_gpu_images.proxy.upstreams import Upstream
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.untrusted.plain_text import one_line

# Time limit to connect, and between two pieces of an answer. A whole layer may take hours.
IDLE_TIMEOUT = 60.0
# Time limit until an answer begins, and for a whole document.
RESPONSE_TIMEOUT = 60.0
PIECE = 128 * 1024
# A manifest of 128 layers has 30 KiB. A parsed index takes up to 22 times its size in Python.
LARGEST_PROXIED_DOCUMENT = 512 * 1024


class RegistryError(ToolkitError):
    """The registry cannot be reached, breaks off its answer or is too slow."""


class RegistryConnection:
    """A connection to a registry. It opens with the first request, and stays open while both sides keep it."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._connection: HTTPConnection | None = None
        self._response: HTTPResponse | None = None
        self._socket: socket | None = None
        self._is_late = False

    def close(self) -> None:
        """Close the connection, if it is open."""
        for each in (self._response, self._connection):
            if each:
                each.close()
        self._connection = self._response = self._socket = None

    def ask(self, method: str, path: str, headers: Iterable[tuple[str, str]]) -> RegistryAnswer:
        """Return the answer to a GET or HEAD; RegistryError."""
        asked = list(headers)
        if self._response and not self._response.isclosed():
            self.close()
        if self._connection:
            # A registry may close an idle connection at any time; then open a new one.
            with suppress(OSError, HTTPException):
                return self._ask(self._connection, method, path, asked)
            self.close()
        with self.explained():
            self._connection = self._connect()
            return self._ask(self._connection, method, path, asked)

    def _connect(self) -> HTTPConnection:
        if not self._upstream.is_secure:
            return HTTPConnection(self._upstream.address, timeout=IDLE_TIMEOUT)
        context = ssl.create_default_context()
        return HTTPSConnection(self._upstream.address, timeout=IDLE_TIMEOUT, context=context)

    def _ask(
        self, connection: HTTPConnection, method: str, path: str, headers: list[tuple[str, str]]
    ) -> RegistryAnswer:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        self._socket = connection.sock
        with self.limited():
            self._response = connection.getresponse()
        answer = RegistryAnswer(self, self._response)
        if method == "HEAD":
            self._response.close()
        return answer

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Cut the connection if the block takes too long, even if bytes keep coming."""
        timer = Timer(RESPONSE_TIMEOUT, self._cut)
        timer.daemon = True
        self._is_late = False
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
        if self._is_late:
            raise TimeoutError

    def _cut(self) -> None:
        self._is_late = True
        with suppress(OSError):
            if self._socket:
                self._socket.shutdown(SHUT_RDWR)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn failures of a connection into RegistryError."""
        try:
            yield
        except (OSError, HTTPException) as error:
            self.close()
            raise RegistryError(f"{self._upstream.registry} {one_line(self._describe(error))}") from error

    def _describe(self, error: OSError | HTTPException) -> str:
        if self._is_late or isinstance(error, TimeoutError):
            return f"gives no answer within {RESPONSE_TIMEOUT:g} seconds"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"has a certificate that is not trusted: {error.verify_message}"
        # The numbers of SSL errors are no errno.
        if isinstance(error, ssl.SSLError):
            return f"cannot be reached with TLS: {error.reason}"
        return f"cannot be reached: {reason(error)}" if isinstance(error, OSError) else "breaks off its answer"


class RegistryAnswer:
    """An answer of a registry: its status and headers, then its content, which can be read once."""

    def __init__(self, connection: RegistryConnection, response: HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self.status = response.status
        self.headers = list(response.headers.items())
        # The number of content bytes to come, None if unknown; and the announced length, which HEAD has too.
        self.length = response.length
        self.announced = self.header("Content-Length")
        self.media_type = self.header("Content-Type").partition(";")[0].strip().lower()

    def header(self, name: str) -> str:
        """Return a header, "" if it is missing."""
        return str(self._response.headers.get(name, ""))

    def pieces(self) -> Iterator[bytes]:
        """Yield the content piece by piece; RegistryError if it breaks off."""
        read = 0
        with self._connection.explained():
            while piece := self._response.read(PIECE):
                read += len(piece)
                yield piece
            if self.length is not None and read < self.length:
                raise HTTPException

    def document(self) -> bytes | None:
        """Return the whole content, None if it is too large; RegistryError."""
        content = bytearray()
        with self._connection.explained(), self._connection.limited():
            for piece in self.pieces():
                content += piece
                if len(content) > LARGEST_PROXIED_DOCUMENT:
                    return None
        return bytes(content)
