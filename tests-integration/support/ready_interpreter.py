"""Programs that find Typer loaded: half of what a start of `amd-ctk` takes is the import of what others made.

An interpreter imports that once and is forked for each program. What is ours is imported by each, in its own order.
Words, environment, directory, output and exit code are those of a process that was started as usual.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import socket
import subprocess
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# What commands load of others, but for what only some of them do.
LOADED = ("typer", "tomlkit", "jsonschema")
LARGEST_CALL = 1 << 18
# What an interpreter looks at when it starts: a program with any of these is started as usual.
READ_AT_START = ("LANG", "LC_", "PYTHON")


class ReadyInterpreter:
    """Runs a Python program as often as it is asked, one at a time; use it as a context."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        """Load what `program` needs, with what it would find in its environment at any start."""
        self._program = program
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Python remembers of its output whether it is a pipe, as that of each program will be.
        self._process = subprocess.Popen(
            [_interpreter_of(program), __file__, program, str(theirs.fileno())],
            env=environment,
            pass_fds=[theirs.fileno()],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        theirs.close()

    def __enter__(self) -> ReadyInterpreter:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.communicate()

    def run(self, words: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run the program with words behind its name, as `subprocess.run` does that captures text."""
        command = [self._program, *words]
        if any(name.startswith(READ_AT_START) for name in environment):
            return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        output, written = os.pipe()
        errors, told = os.pipe()
        call = json.dumps({"words": command, "environment": environment, "directory": os.getcwd(), "mask": _mask()})
        socket.send_fds(self._socket, [call.encode()], [0, written, told])
        os.close(written)
        os.close(told)
        texts = [content.decode().replace("\r\n", "\n").replace("\r", "\n") for content in _read_all(output, errors)]
        status = self._socket.recv(64) or self._process.communicate()[1]
        return subprocess.CompletedProcess(command, int(status), *texts)


def _mask() -> int:
    os.umask(mask := os.umask(0))
    return mask


def _interpreter_of(program: str) -> str:
    """Return the interpreter in the first line of a program; hooks are given its name."""
    with open(program, encoding="utf-8") as file:
        named = file.readline().removeprefix("#!").strip()
    # A path that is too long for the kernel stands in a line of sh.
    return named if Path(named).name.startswith("python") else sys.executable


def _read_all(*descriptors: int) -> list[bytes]:
    """Read pipes to their ends, side by side, and close them."""
    contents = dict.fromkeys(descriptors, b"")
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if more := os.read(key.fd, 1 << 16):
                    contents[key.fd] += more
                else:
                    selector.unregister(key.fd)
                    os.close(key.fd)
    return list(contents.values())


def _serve(calls: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Answer calls until nobody is left who has any; return one in each process that is to be a program."""
    while True:
        call, descriptors, _, _ = socket.recv_fds(calls, LARGEST_CALL, 3)
        if not call:
            sys.exit()
        pid = os.fork()
        if not pid:
            calls.close()
            return json.loads(call), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        calls.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())


def _become(call: dict[str, Any], descriptors: list[int]) -> None:
    """Run the program of a call in this process, which ends with it."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(call["directory"])
    os.umask(call["mask"])
    # Where there is no locale, Python itself sets one.
    of_python = {name: text for name, text in os.environ.items() if name.startswith("LC_")}
    os.environ.clear()
    os.environ.update({**of_python, **call["environment"]})
    sys.argv[:] = call["words"]
    runpy.run_path(call["words"][0], run_name="__main__")


if __name__ == "__main__":
    sys.path[0] = os.path.dirname(sys.argv[1])
    for name in LOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # Else each program would look at all of it again, and so copy it.
    gc.freeze()
    _become(*_serve(socket.socket(fileno=int(sys.argv[2]))))
