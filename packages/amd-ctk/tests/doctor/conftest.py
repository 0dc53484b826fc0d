"""A machine of its own: a simulated host, what /proc says, and programs that answer."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from pathlib import Path

import pytest

from amd_ctk.doctor.check import BAD
from amd_ctk.doctor.facts.all import add_inside, read_facts
from amd_ctk.doctor.run import run_checks
from amd_gpu_sharing.broker.requests.client import is_served
from amd_gpu_sharing.broker.requests.protocol import SOCKET
from amd_gpu_sharing.broker.serve import serve
from amd_gpu_sharing.rules.permissions import find_terms
from amdgpu_simulator import build_host
from support.ready_interpreter import ReadyInterpreter

KERNEL = "6.12.12-amd64"
SECONDS = 60


class Machine:
    """A host that is well, to be spoilt."""

    # The services of all machines of a test, with the file of what each says.
    services: list[tuple[int, Path]] = []  # noqa: RUF012 - a fixture ends them
    # An interpreter that runs amd-ctk.
    ready: ReadyInterpreter

    def __init__(self, directory, profile="one-gpu"):
        self.profile = profile
        self.host = build_host(directory / "host", profile, bare=True)
        self.root = Path(self.host.root)
        self.proc = directory / "proc"
        self.programs = directory / "bin"
        # A container as it is seen from inside, None where none is asked about.
        self.inside = None
        # What is otherwise than a simulated host can be: a function of its facts.
        self.change = lambda facts: facts
        # Who runs rootless containers, None for nobody.
        self.user = None
        self.docker = {"ServerVersion": "28.5.2", "Runtimes": {"runc": {}}, "DefaultRuntime": "runc"}
        self.write_proc("sys/kernel/osrelease", f"{KERNEL}\n")
        self.write_proc("self/uid_map", "         0          0 4294967295\n")
        self.add_program("runc", "exit 0")

    def write(self, path, content):
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content) if isinstance(content, bytes) else file.write_text(content, encoding="utf-8")

    def write_proc(self, path, text):
        (self.proc / path).parent.mkdir(parents=True, exist_ok=True)
        (self.proc / path).write_text(text, encoding="utf-8")

    def remove(self, path):
        file = self.root / path.lstrip("/")
        shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()

    def add_program(self, name, script):
        self.programs.mkdir(exist_ok=True)
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (self.programs / name).chmod(0o755)
        return str(self.programs / name)

    def serve(self):
        """Let people ask for GPUs, as systemd's socket does."""
        said = self.root.parent / f"service-{len(self.services)}"
        pid = os.fork()
        if not pid:
            serve_and_end(self.host, said)
        self.services.append((pid, said))
        end = time.monotonic() + SECONDS
        while not is_served(self.host.path(SOCKET)):
            has_ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
            assert not has_ended, said.read_text()
            assert time.monotonic() < end, said.read_text()
            time.sleep(0.02)

    def leave_socket(self):
        """Leave a socket at which nobody listens any more."""
        path = self.root / SOCKET.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        with socket.socket(socket.AF_UNIX) as left:
            opened = os.open(path.parent, os.O_PATH)
            left.bind(f"/proc/self/fd/{opened}/{path.name}")
            os.close(opened)

    def examine(self, *, only=(), skip=(), engine=""):
        return run_checks(self.facts(engine), only=only, skip=skip, engine=engine)

    def facts(self, engine=""):
        self.add_program("docker", f"/bin/cat <<'END'\n{json.dumps(self.docker)}\nEND")
        facts = read_facts(self.host, engine=engine, user=self.user, proc=str(self.proc))
        # Root of a container that runs the tests may not look at users' processes, and root of this machine may.
        facts = facts.replace(toolkit=facts.toolkit.replace(may_look_at_users=True))
        return self.change(add_inside(self.host, facts, self.inside) if self.inside else facts)

    def states(self):
        return {result.check: result.finding.state for result in self.examine()}

    def bad(self):
        return [name for name, state in self.states().items() if state == BAD]


def serve_and_end(host, said):
    """Serve in a forked process, and write to a file what it says and the trace of what ends it."""
    failed = 1
    with said.open("w", buffering=1) as sys.stderr:
        try:
            serve(host, find_terms, listen=host.path(SOCKET))
            failed = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(failed)


@pytest.fixture(scope="module")
def facts_of(tmp_path_factory):
    """Return a function that gives the facts of a host which was spoilt by these functions, one after another."""

    def read(*spoil):
        directory = tmp_path_factory.mktemp("host")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", str(directory / "bin"))
            spoilt = Machine(directory)
            for one in spoil:
                one(spoilt)
            return spoilt.facts()

    return read


@pytest.fixture
def machine(tmp_path, monkeypatch, ready):
    """Return a function that makes a machine of a profile."""
    monkeypatch.setattr(Machine, "ready", ready, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    yield lambda profile="one-gpu": Machine(tmp_path, profile)
    crashed = []
    while Machine.services:
        pid, said = Machine.services.pop()
        os.kill(pid, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) > 0:
            crashed.append(said.read_text())
    assert not crashed, "\n".join(crashed)
