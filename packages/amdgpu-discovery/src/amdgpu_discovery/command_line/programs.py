"""Run other programs for their output with a time limit, and ask systemctl about units."""

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
    from collections.abc import Iterator, Sequence
    from typing import Any

    from amdgpu_discovery.host import Host

PROGRAM_SECONDS = 3.0
# Limit for each stream; the longest output is a list of containers.
LARGEST_OUTPUT = 4 * 1024 * 1024
PIECE = 64 * 1024
# Exists while systemd is the init of this machine; see sd_booted(3).
RUNNING = "/run/systemd/system"
SYSTEMCTL_SECONDS = 30.0
VERSION = re.compile(r"\d+(\.\d+)+")


class Answer(Value):
    """The output of a program. If there is none, `problem` says why.

    `is_late` means that the program was still running when its time ran out.
    """

    output: str = ""
    errors: str = ""
    exit_code: int = 0
    problem: str = ""
    is_late: bool = False
    is_installed: bool = True

    @property
    def succeeded(self) -> bool:
        """Return whether the program ran and exited with 0."""
        return not self.problem and self.exit_code == 0


def ask(argv: Sequence[str], *, seconds: float = PROGRAM_SECONDS) -> Answer:
    """Run a program and return its output. This never raises and never takes longer than `seconds`."""
    program = shutil.which(argv[0])
    if program is None:
        return Answer(problem=f"{argv[0]} is not installed", is_installed=False)
    try:
        # A session of its own, so that the program has no terminal and its children can be killed with it.
        process = subprocess.Popen(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return Answer(problem=f"{argv[0]} cannot be run: {error.strerror}")
    with process:
        try:
            output, errors = _read(process, seconds)
        except subprocess.TimeoutExpired:
            return Answer(problem=f"{argv[0]} gave no answer within {seconds:g} seconds", is_late=True)
        except _TooLong:
            return Answer(problem=f"{argv[0]} printed more than {LARGEST_OUTPUT // 1024**2} MiB")
        finally:
            _end(process)
    return Answer(output=output, errors=errors, exit_code=process.returncode)


class _TooLong(Exception):
    """A program printed more than the limit."""


def _read(process: subprocess.Popen[bytes], seconds: float) -> tuple[str, str]:
    """Return what a program printed until it ended; TimeoutExpired, _TooLong."""
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
    """Read a piece and return whether there was one; _TooLong."""
    piece = os.read(descriptor, PIECE)
    text += piece
    if len(text) > LARGEST_OUTPUT:
        raise _TooLong
    return bool(piece)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that is still running, and its children."""
    if process.returncode is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def parse_object(text: str) -> dict[str, Any]:
    """Parse a JSON object that a program printed; {} for anything else."""
    # Imported here because most programs print words.
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def parse_version(text: str) -> tuple[int, ...]:
    """Return the first version in a text, as (28, 5, 2) for "Docker 28.5.2-ce"; () if there is none."""
    found = VERSION.search(text)
    return tuple(map(int, found[0].split("."))) if found else ()


def runs_systemd(host: Host) -> bool:
    """Return whether systemd is the init of a host."""
    return host.stat(RUNNING) is not None


def ask_systemctl(*args: str) -> Answer:
    """Run `systemctl` on this machine and return its answer."""
    return ask(("systemctl", *args), seconds=SYSTEMCTL_SECONDS)


def would_change(host: Host, unit: str, *, enabled: bool) -> bool:
    """Return whether switching a unit to `enabled` would change it. False on a simulated host, which has no units."""
    return host.is_this_machine and ask_systemctl("is-enabled", "--quiet", unit).succeeded is not enabled


def is_podman_set_up() -> bool:
    """Return whether Podman was used before; its first call makes its storage, with the settings of that call."""
    return any(map(os.path.exists, _podman_storage()))


def _podman_storage() -> Iterator[str]:
    if os.geteuid() == 0:
        yield "/var/lib/containers/storage"
    yield os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "containers", "storage")
