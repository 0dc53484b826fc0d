"""Run another program for its output, with a time limit; systemctl and its units among them."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import time

from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from amdgpu_discovery.host import Host

SECONDS = 3.0
# Of one output; the longest are lists of containers.
LARGEST = 4 * 1024 * 1024
PIECE = 64 * 1024
# Present while systemd is the init of this machine; see sd_booted(3).
RUNNING = "/run/systemd/system"
SYSTEMCTL_SECONDS = 30.0
VERSION = re.compile(r"\d+(\.\d+)+")


class Answer(Value):
    """The output of a program; `problem` says why there is none, "" where there is one.

    `is_late` where it was running still when the time was over.
    """

    output: str = ""
    errors: str = ""
    exit_code: int = 0
    problem: str = ""
    is_late: bool = False
    is_installed: bool = True

    @property
    def succeeded(self) -> bool:
        """Return whether the program ended well."""
        return not self.problem and self.exit_code == 0


def ask(words: Sequence[str], *, seconds: float = SECONDS) -> Answer:
    """Return what a program prints; never raises, and never takes longer than `seconds`."""
    program = shutil.which(words[0])
    if program is None:
        return Answer(problem=f"{words[0]} is not installed", is_installed=False)
    try:
        # In a group of its own, so that what the program starts ends with it, and without the caller's terminal.
        process = subprocess.Popen(
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Answer(problem=f"{words[0]} cannot be run: {error.strerror}")
    with process:
        try:
            output, errors = _read(process, seconds)
        except subprocess.TimeoutExpired:
            return Answer(problem=f"{words[0]} gave no answer within {seconds:g} seconds", is_late=True)
        except _TooLong:
            return Answer(problem=f"{words[0]} printed more than {LARGEST // 1024**2} MiB")
        finally:
            _end(process)
    return Answer(output=output, errors=errors, exit_code=process.returncode)


class _TooLong(Exception):
    """A program printed more than is read."""


def _read(process: subprocess.Popen[bytes], seconds: float) -> tuple[str, str]:
    """Return what a program printed when it has ended; TimeoutExpired, _TooLong."""
    end = time.monotonic() + seconds
    texts = {stream.fileno(): bytearray() for stream in (process.stdout, process.stderr) if stream}
    with selectors.DefaultSelector() as selector:
        for descriptor in texts:
            selector.register(descriptor, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(process.args, seconds)
            for descriptor in [key.fd for key, _ in ready]:
                if not _add_piece(texts[descriptor], descriptor):
                    selector.unregister(descriptor)
    process.wait(max(0.0, end - time.monotonic()))
    output, errors = (text.decode("utf-8", "replace") for text in texts.values())
    return output, errors


def _add_piece(text: bytearray, descriptor: int) -> bool:
    """Return whether there was more; _TooLong."""
    piece = os.read(descriptor, PIECE)
    text += piece
    if len(text) > LARGEST:
        raise _TooLong
    return bool(piece)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that still runs, and what it started."""
    if process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that a program printed, {} for anything else."""
    # Most that is asked prints words.
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_version(text: str) -> tuple[int, ...]:
    """Return the first version in a text, 28, 5, 2 of "Docker 28.5.2-ce"; () if there is none."""
    found = VERSION.search(text)
    return tuple(map(int, found[0].split("."))) if found else ()


def runs_systemd(host: Host) -> bool:
    """Return whether systemd is the init of a host."""
    return host.stat(RUNNING) is not None


def ask_systemctl(*words: str) -> Answer:
    """Return what `systemctl` answers on this machine."""
    return ask(("systemctl", *words), seconds=SYSTEMCTL_SECONDS)


def would_switch(host: Host, unit: str, *, enabled: bool) -> bool:
    """Return whether a unit is not yet enabled, or disabled; False for a simulated host, where none is switched."""
    return host.is_this_machine and ask_systemctl("is-enabled", "--quiet", unit).succeeded is not enabled
