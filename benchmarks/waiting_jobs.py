"""Measure how much memory the service takes for jobs that wait, all of them connected.

Example: sudo python benchmarks/waiting_jobs.py 1000

It prints the resident memory of the service without jobs and with them, and the difference for each.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from amd_gpu_sharing.broker.requests import protocol
from amd_gpu_sharing.broker.requests.protocol import Request, format_request
from amd_gpu_tracker import Tracker
from amdgpu_simulator import build_host

SERVICE = (
    "import sys; from amd_gpu_sharing.broker.serve import serve; from amdgpu_discovery import Host;"
    " from amd_gpu_sharing.rules.permissions import find_terms;"
    " serve(Host(sys.argv[1]), find_terms, listen=sys.argv[2])"
)
# After the last message, the service writes when each job starts at the latest.
SETTLED_SECONDS = 3.0


def main(count: int) -> None:
    """Let `count` jobs wait, and print the memory."""
    with tempfile.TemporaryDirectory() as made:
        host = build_host(Path(made, "host"), "mi210-8", bare=True)
        tracker = Tracker(host)
        tracker.enable()
        tracker.set_accessibility("all", exclusive=True)
        path = Path(made, "socket")
        with tracker.reserve("all", name="before-all"):
            service = subprocess.Popen([sys.executable, "-c", SERVICE, host.root, path])
            while not path.exists():
                time.sleep(0.05)
            time.sleep(SETTLED_SECONDS)
            before = resident_kilobytes(service.pid)
            clients = [wait_in_line(path, number) for number in range(count)]
            for client in clients:
                client.recv(1)
            time.sleep(SETTLED_SECONDS)
            after = resident_kilobytes(service.pid)
            service.terminate()
            service.wait()
    each = (after - before) / count
    print(f"{before / 1024:.1f} MB; with {count} waiting jobs {after / 1024:.1f} MB, {each:.1f} kB each")


def wait_in_line(path: Path, number: int) -> socket.socket:
    """Request a free GPU for a job, and return the connection, on which the service tells what it waits for."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(str(path))
    request = Request(verb=protocol.RUN, name=f"job-{number:04}", gpus="free:1", wait=True)
    client.sendall(format_request(request))
    return client


def resident_kilobytes(pid: int) -> int:
    """Return the memory of a process that is in RAM."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
