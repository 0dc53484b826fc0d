"""People who ask the service at the same time, and who wait by the thousand: what it gives, and what it costs.

`nox -s choices` asks in 50 rounds, lets 1,000 wait, and writes a table of docs/maintain/queue.md.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import pytest

from amd_gpu_sharing.broker.requests.protocol import RESERVE, SOCKET, Request, format_request, parse_answer
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host
from support.installed import our_program, require_root
from support.marked_table import write_table
from support.other_user import become
from support.shared_host import run, wait_until
from support.simulated import run_amd_ctk

GPUS = 8
PERSONS = 20
FIRST_UID = 50_000
ROUNDS = int(os.environ.get("AMD_PEOPLE_ROUNDS", "1"))
REQUESTS = int(os.environ.get("AMD_PEOPLE_REQUESTS", "40"))
WAITERS = [int(words) for words in os.environ.get("AMD_PEOPLE_WAITERS", "40 80").split()]
IDLE_SECONDS = float(os.environ.get("AMD_PEOPLE_IDLE_SECONDS", "0.5"))
PAGE = os.environ.get("AMD_CHOICE_PAGE", "")
DESCRIPTORS = 65_536
TICK = os.sysconf("SC_CLK_TCK")
# Of a process that asks.
KEPT = []


class Service:
    """The service as a program of root, on a simulated host of which everybody may have GPUs."""

    def __init__(self, host):
        self.host = host
        run_amd_ctk(host.root, "users", "allow", "everyone")
        self.socket = host.path(SOCKET)
        self.program = subprocess.Popen(
            [our_program("amd-ctk"), "gpu-tracker", "serve", "--listen", self.socket],
            env={**os.environ, "AMD_CTK_HOST_ROOT": host.root},
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: Path(self.socket).exists())

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.program.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def memory_mb(self):
        lines = Path(f"/proc/{self.program.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def end(self):
        self.program.terminate()
        self.program.wait()


class Asker:
    """A process of one person that asks for many jobs, each in a connection of its own, and says what it was told."""

    def __init__(self, service, uid, requests):
        said, say = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            with suppress(BaseException):
                os.close(said)
                become(uid)
                answers = ask_all(service.socket, requests)
                with os.fdopen(say, "w") as file:
                    json.dump(answers, file)
                signal.pause()
            os._exit(0)
        os.close(say)
        self._said = os.fdopen(said)

    def answers(self):
        """Return for each job the kind of the first answer and the GPUs in it."""
        with self._said:
            return [(kind, tuple(numbers)) for kind, numbers in json.load(self._said)]

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def ask_all(path, requests):
    """Return the first answer to each request; the connections stay open, as those of a job that waits do."""
    connections = KEPT
    for request in requests:
        connections.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connections[-1].connect(path)
        connections[-1].sendall(format_request(request))
    asked = connections[-len(requests) :]
    found = [parse_answer(connection.recv(65536).partition(b"\n")[0]) for connection in asked]
    return [(answer.kind, answer.numbers) for answer in found]


@pytest.fixture
def service():
    require_root()
    directory = tempfile.mkdtemp(prefix="amd-people-")
    os.chmod(directory, 0o755)
    host = build_host(f"{directory}/host", "mi210-8", bare=True)
    Tracker(host).enable()
    Tracker(host).set_accessibility("all", exclusive=True)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = min(DESCRIPTORS, before[1])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    made = Service(host)
    yield made
    made.end()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    shutil.rmtree(directory)


def ask_with_all(service, count, prefix, gpus, *, wait):
    """Return the processes of twenty persons who share `count` jobs."""
    jobs = [run(f"{prefix}{number}", gpus, wait=wait) for number in range(count)]
    return [Asker(service, FIRST_UID + person, jobs[person::PERSONS]) for person in range(PERSONS)]


@pytest.mark.timeout(4 * 3600)
def test_people_at_once_are_given_each_gpu_once_and_waiters_cost_little(service):
    seconds = [ask_in_a_round(service, turn) for turn in range(ROUNDS)]
    reserve = Request(verb=RESERVE, name="held", gpus="all", seconds=3600)
    assert ask_all(service.socket, [reserve]) == [("done", tuple(range(GPUS)))]
    askers = []
    try:
        rows = [arrive(service, askers, total) for total in WAITERS]
    finally:
        for asker in askers:
            asker.end()
    wait_until(lambda: Tracker(service.host).waiting() == [])
    if PAGE:
        write_table(PAGE, "people", [*table_of(seconds, rows)])


def ask_in_a_round(service, turn):
    began = time.monotonic()
    askers = ask_with_all(service, REQUESTS, f"r{turn}-", "free:1", wait=False)
    answers = [answer for asker in askers for answer in asker.answers()]
    seconds = time.monotonic() - began

    # Everybody sees the same list.
    uses = {gpu.number: len(gpu.containers) for gpu in Tracker(service.host).status().gpus}
    for asker in askers:
        asker.end()

    assert sorted(numbers for kind, numbers in answers if kind == "granted") == [(number,) for number in range(GPUS)]
    assert sum(kind == "refused" for kind, _ in answers) == REQUESTS - GPUS
    assert uses == dict.fromkeys(range(GPUS), 1)
    return seconds


def arrive(service, askers, total):
    """Let so many wait, beside those who do, and return what it took."""
    known = len(Tracker(service.host).waiting())
    before = service.cpu_seconds()
    askers += ask_with_all(service, total - known, f"w{total}-", "free:1", wait=True)
    told = [answer for asker in askers[-PERSONS:] for answer in asker.answers()]
    arrived = (service.cpu_seconds() - before) / (total - known)

    assert {kind for kind, _ in told} == {"waiting"}
    assert len(Tracker(service.host).waiting()) == total
    before, began = service.cpu_seconds(), time.monotonic()
    # What is measured is the time in which nothing happens.
    time.sleep(IDLE_SECONDS)
    idle = (service.cpu_seconds() - before) / (time.monotonic() - began)
    return total, arrived * 1000, service.memory_mb(), idle * 100


def table_of(seconds, rows):
    yield "what", "result"
    yield "date", datetime.now(timezone.utc).strftime("%Y-%m-%d")
    yield f"rounds of {REQUESTS} requests of {PERSONS} people at once", str(len(seconds))
    yield "granted, in every round", str(GPUS)
    yield "GPUs given twice", "0"
    yield "seconds of a round, median", f"{statistics.median(seconds):.2f}"
    for total, arrived, memory, idle in rows:
        yield f"{total:,} who wait: processor time of the service for each who comes", f"{arrived:.2f} ms"
        yield f"{total:,} who wait: memory of the service", f"{memory:.0f} MiB"
        yield f"{total:,} who wait: processor of the service while nothing happens", f"{idle:.2f} %"
