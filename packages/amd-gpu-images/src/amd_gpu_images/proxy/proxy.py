"""Answer engines: the tag of an index with the image for this host, and everything else as the registry does."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler

from amd_gpu_images.proxy.registry_connection import RegistryAnswer, RegistryConnection, RegistryError
from amd_gpu_images.proxy.tags import Reply, is_index, refuse, reply_for_index
from amd_gpu_images.proxy.upstreams import Upstream
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_text import one_line

PATH = re.compile(r"/v2/[!-~]*")
# OCI distribution specification, "Pulling manifests": a reference with a colon is a digest.
TAGGED = re.compile(r"/v2/.+/manifests/[^/:]+")
# RFC 9110, 7.6.1: these headers belong to one connection. A pull has no content, and Host is the registry's.
HOP_BY_HOP = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"}
STRIPPED = HOP_BY_HOP | {"host", "content-length", "expect"}
# With these headers, a registry might send part of an index, none of it, or a compressed one.
TAG_STRIPPED = STRIPPED | {"range", "accept-encoding", "if-match", "if-none-match", "if-modified-since", "if-range"}
# Time limits between two requests, and for an engine that unpacks a layer to take more of it.
SECONDS_IDLE, SECONDS_TO_TAKE = 15.0, 600.0


class EngineConnection(BaseHTTPRequestHandler):
    """One connection from an engine; no state outlives it."""

    host: Host
    upstream: Upstream
    protocol_version = "HTTP/1.1"
    timeout = SECONDS_IDLE
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """Prepare the connection to the registry."""
        super().setup()
        self._registry = RegistryConnection(self.upstream)

    def finish(self) -> None:
        """Close this connection and the one to the registry."""
        self._registry.close()
        super().finish()

    def do_GET(self) -> None:
        """Answer a pull."""
        self.connection.settimeout(SECONDS_TO_TAKE)
        if not PATH.fullmatch(self.path):
            self._refuse(404, "UNSUPPORTED", "this proxy answers /v2/ only")
        elif self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers:
            self._refuse(400, "UNSUPPORTED", "a pull has no content")
        else:
            self._answer()
        self.connection.settimeout(SECONDS_IDLE)

    do_HEAD = do_GET  # noqa: N815 - a name of http.server

    def do_POST(self) -> None:
        """Refuse a push."""
        words = f"this proxy only pulls images: push to {self.upstream.registry}"
        self._refuse(405, "UNSUPPORTED", words, ("Allow", "GET, HEAD"))

    do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - names of http.server

    def log_error(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
        """Log nothing for invalid requests, because engines try TLS first."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server has it
        """Write a line to the journal."""
        print(one_line(format % args), file=sys.stderr, flush=True)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing for requests that are answered."""

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        try:
            answer = self._answer_for_tag(path) if TAGGED.fullmatch(path) else self._ask(self.command, self.path)
        except RegistryError as error:
            answer = refuse(502, "UNAVAILABLE", error.message)
        if isinstance(answer, Reply):
            self._send(answer)
        else:
            self._pass_on(answer)

    def _answer_for_tag(self, path: str) -> RegistryAnswer | Reply:
        answer = self._ask(self.command, self.path, without=TAG_STRIPPED)
        if is_index(answer) and self.command == "HEAD":
            # Choose as for GET, because Docker takes the digest from HEAD and then pulls it.
            answer = self._ask("GET", self.path, without=TAG_STRIPPED)
        if is_index(answer):
            directory = path.rpartition("/")[0]
            return reply_for_index(
                self.host, answer, lambda digest: self._ask("GET", f"{directory}/{digest}", without=TAG_STRIPPED)
            )
        if 300 <= answer.status < 400 and not self._at_proxy(answer.header("Location")).startswith("/v2/"):
            # Following the redirect, an engine would get the index and take its first image.
            return refuse(502, "UNSUPPORTED", f"{self.upstream.registry} has its manifests on another server")
        return answer

    def _ask(self, method: str, path: str, *, without: set[str] = STRIPPED) -> RegistryAnswer:
        return self._registry.ask(method, path, _without(self.headers.items(), without))

    def _at_proxy(self, location: str) -> str:
        """Turn a URL at the registry into a path at the proxy, because engines keep credentials by address."""
        return location.removeprefix(self.upstream.url) if location.startswith(f"{self.upstream.url}/") else location

    def _refuse(self, status: int, code: str, message: str, *headers: tuple[str, str]) -> None:
        # The content of the request stays unread.
        self.close_connection = True
        reply = refuse(status, code, message)
        self._send(reply.replace(headers=(*reply.headers, *headers)))

    def _send(self, reply: Reply) -> None:
        if reply.refusal:
            self.log_message("%s: %s", self.path, reply.refusal)
        self._begin(reply.status, reply.headers)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.content)

    def _pass_on(self, answer: RegistryAnswer) -> None:
        """Send the registry's answer unchanged."""
        self._begin(answer.status, answer.headers)
        is_chunked = answer.length is None
        if is_chunked:
            self.send_header("Transfer-Encoding", "chunked")
        elif answer.announced:
            self.send_header("Content-Length", answer.announced)
        self.end_headers()
        try:
            for piece in answer.pieces():
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
        except RegistryError as error:
            # An engine notices by the length, or by the missing end, that the answer is incomplete.
            self.close_connection = True
            self.log_message("%s: %s", self.path, error.message)
            return
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _begin(self, status: int, headers: Iterable[tuple[str, str]]) -> None:
        self.send_response_only(status)
        for name, value in _without(headers, HOP_BY_HOP | {"content-length"}):
            self.send_header(name, self._at_proxy(value) if name.lower() == "location" else value)
        if self.close_connection:
            self.send_header("Connection", "close")


def _without(headers: Iterable[tuple[str, str]], names: set[str]) -> Iterator[tuple[str, str]]:
    """Yield all headers except `names`, including repeated ones, each on one line."""
    return ((name, " ".join(value.splitlines())) for name, value in headers if name.lower() not in names)
