"""Run programs with Typer already loaded, because half the time of an `amd-ctk` start goes to third-party imports.

One interpreter imports them once and forks for each program. Each program imports the toolkit's own modules itself, in
its own order. Arguments, environment, directory, output and exit code are those of an ordinary process.
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

# Third-party modules of most commands.
LOADED = ("typer", "tomlkit", "jsonschema")
LARGEST_CALL = 1 << 18
# An interpreter reads these variables when it starts. With any of them, a program is started normally.
READ_AT_START = ("LANG", "LC_", "PYTHON")


class ReadyInterpreter:
    """Runs a Python program any number of times, one at a time; use it as a context manager."""

    def __init__(self, program: str, environment: dict[str, str]) -> None:
        """Load the third-party modules of `program` in an environment like that of any start."""
        self._program = program
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Python remembers whether its output is a pipe, as it will be for each program.
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
        """Run the program with these arguments, like `subprocess.run` that captures text."""
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
    """Return the interpreter in the first line of a program; hooks get its name."""
    with open(program, encoding="utf-8") as file:
        named = file.readline().removeprefix("#!").strip()
    # If the path is too long for the kernel, it is in a line of sh.
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
    """Answer calls until the caller closes the socket; return a call in each process that will run a program."""
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
    """Run the program of a call in this process and end with it."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(call["directory"])
    os.umask(call["mask"])
    # Without a locale, Python itself sets one.
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
    # Otherwise the collector of each program would visit all these objects, and so copy their memory.
    gc.freeze()
    _become(*_serve(socket.socket(fileno=int(sys.argv[2]))))
