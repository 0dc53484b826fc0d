"""Whose a connection over loopback is, so that one user cannot take all places of the proxy."""

from __future__ import annotations

import socket
import struct
from itertools import islice

# Bounded, because every user can open sockets.
MOST_SOCKETS = 100_000


def user_of(accepted: socket.socket) -> int | None:
    """Return the number of the user at the other end; None if the kernel does not list it (any more); OSError."""
    wanted = [_in_table(accepted.getpeername()), _in_table(accepted.getsockname())]
    # Documentation/networking/proc_net_tcp.rst: sl, local_address, rem_address, st, queues, timer, retrnsmt, uid.
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in islice(table, MOST_SOCKETS):
            fields = line.split()
            if fields[1:3] == wanted:
                return int(fields[7])
    return None


def _in_table(address: tuple[str, int]) -> str:
    """Return an address as the kernel lists it: hexadecimal, the four bytes as a number of this machine."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
