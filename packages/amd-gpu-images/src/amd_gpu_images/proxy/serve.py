"""Serve on the socket that systemd passes, with a limited number of connections, until the proxy is idle."""

from __future__ import annotations

import os
import socket
import struct
from collections import Counter
from contextlib import suppress
from itertools import islice
from threading import BoundedSemaphore, Lock, Thread

from amd_gpu_images.proxy.proxy import EngineConnection
from amd_gpu_images.proxy.upstreams import UpstreamError, find_upstream
from amdgpu_discovery.errors import reason
from amdgpu_discovery.host import Host

# sd_listen_fds(3).
FIRST_DESCRIPTOR = 3
# An engine opens three to six for one pull. Further connections wait until one ends.
MOST_PULL_CONNECTIONS = 32
# Limit for each user except root, so that no user keeps the others from pulling.
MOST_OF_A_USER = 12
# Limit for the search through the kernel's table, because every user can open sockets.
MOST_SOCKETS = 100_000
# The proxy ends after this without a request. systemd then listens, and the next request starts it again.
SECONDS_UNUSED = 600.0


def serve(host: Host, port: int) -> None:
    """Answer requests for the registry that belongs to a port; ToolkitError."""
    upstream = find_upstream(host, port)
    EngineServer(
        _take_listener(port), type("Connection", (EngineConnection,), {"host": host, "upstream": upstream})
    ).run()


class EngineServer:
    """Accepts connections and runs a thread for each."""

    def __init__(self, listener: socket.socket, connection: type[EngineConnection]) -> None:
        self._listener = listener
        self._connection = connection
        self._places = BoundedSemaphore(MOST_PULL_CONNECTIONS)
        self._threads: set[Thread] = set()
        self._by_user: Counter[int | None] = Counter()
        self._counting = Lock()

    def run(self) -> None:
        """Serve until no connection is open and no request has come for some time."""
        self._listener.settimeout(SECONDS_UNUSED)
        while True:
            self._places.acquire()
            try:
                accepted, _ = self._listener.accept()
            except TimeoutError:
                self._places.release()
                if not any(thread.is_alive() for thread in self._threads):
                    return
            else:
                self._start(accepted)

    def _start(self, accepted: socket.socket) -> None:
        self._threads = {thread for thread in self._threads if thread.is_alive()}
        thread = Thread(target=self._answer, args=(accepted,), daemon=True)
        self._threads.add(thread)
        thread.start()

    def _answer(self, accepted: socket.socket) -> None:
        # An engine that disconnects in the middle is no failure.
        try:
            with accepted, suppress(OSError):
                self._answer_user(accepted, _user_of(accepted))
        finally:
            self._places.release()

    def _answer_user(self, accepted: socket.socket, user: int | None) -> None:
        with self._counting:
            self._by_user[user] += 1
            is_too_many = user != 0 and self._by_user[user] > MOST_OF_A_USER
        try:
            if not is_too_many:
                self._connection(accepted, "", None)  # type: ignore[arg-type]  # no server of socketserver is needed
                accepted.shutdown(socket.SHUT_WR)
        finally:
            with self._counting:
                self._by_user[user] -= 1


def _take_listener(port: int) -> socket.socket:
    """Return the socket that systemd passed, or else a new one on the loopback address; UpstreamError."""
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1":
        os.set_inheritable(FIRST_DESCRIPTOR, False)
        return socket.socket(fileno=FIRST_DESCRIPTOR)
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UpstreamError(f"port {port} of 127.0.0.1 cannot be listened on: {reason(error)}") from error


def _user_of(accepted: socket.socket) -> int | None:
    """Return the id of the user at the other end; None if the kernel does not list it, or no longer; OSError."""
    wanted = [_in_table(accepted.getpeername()), _in_table(accepted.getsockname())]
    # Documentation/networking/proc_net_tcp.rst: sl, local_address, rem_address, st, queues, timer, retrnsmt, uid.
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in islice(table, MOST_SOCKETS):
            fields = line.split()
            if fields[1:3] == wanted:
                return int(fields[7])
    return None


def _in_table(address: tuple[str, int]) -> str:
    """Format an address as the kernel lists it: hexadecimal, its four bytes as a number in this machine's order."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
