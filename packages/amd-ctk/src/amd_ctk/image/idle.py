"""End programs that move images where they have stopped moving: a registry may keep a connection open and be silent."""

from __future__ import annotations

import io
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from tempfile import TemporaryFile

from amd_ctk.image.bounds import ImageError
from amd_ctk.programs import Answer
from amdgpu_discovery.errors import reason

# Without a byte of an image.
SECONDS = 120.0
# A registry may take minutes to put a large layer together when all of it is there.
SECONDS_OF_COPY = 600.0
# How often that is looked at.
STEP = 1.0
# A program that waits reads and writes some bytes for itself.
LEAST = 4096
# Of what a program prints about its failure.
MOST_WORDS = 4096


class Stall:
    """For how long a program has moved nothing; `moved` returns how many bytes it has moved in all."""

    def __init__(self, moved: Callable[[], int], seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._moved = moved
        self._seconds = seconds
        self._now = now
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._start = self._moved()
        self._since = self._now()

    def is_over(self) -> bool:
        """Return whether the program has moved too little for too long."""
        if self._moved() - self._start >= LEAST:
            self.begin()
        return self._now() - self._since > self._seconds


class Watched(io.RawIOBase):
    """What a program prints; ImageError where neither this nor anything else of it moves."""

    def __init__(self, printing: subprocess.Popen[bytes]) -> None:
        # The pipe below the buffer, in which nothing is yet.
        self._pipe = printing.stdout.raw  # type: ignore[union-attr]  # it prints to a pipe
        self._printing = printing

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as BufferedReader calls it
        """Read what is there next, and wait for it while the program moves."""
        if not self._is_ready():
            self._wait()
        return int(self._pipe.readinto(buffer))

    def _wait(self) -> None:
        stall = Stall(lambda: bytes_of(self._printing.pid), SECONDS)
        while not self._is_ready():
            if stall.is_over():
                program = self._printing.args[0]  # type: ignore[index]  # a list
                raise ImageError(stuck(str(program), SECONDS), hint="try again")

    def _is_ready(self) -> bool:
        return bool(select.select([self._pipe], [], [], min(STEP, SECONDS))[0])


def run_while_it_moves(words: Sequence[str]) -> Answer:
    """Return how a program ends, which may take any time as long as it moves bytes."""
    with TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                list(words), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
        except OSError as error:
            return Answer(problem=f"{words[0]} cannot be run: {reason(error)}")
        with process:
            try:
                _wait(process)
            except subprocess.TimeoutExpired:
                return Answer(problem=stuck(words[0], SECONDS_OF_COPY), is_late=True)
            finally:
                if process.returncode is None:
                    process.kill()
        errors.seek(0)
        return Answer(errors=errors.read(MOST_WORDS).decode("utf-8", "replace"), exit_code=process.returncode)


def stuck(program: str, seconds: float) -> str:
    """Return the sentence for a program that moved nothing."""
    return f"{program} moved no byte for {seconds:g} seconds"


def bytes_of(pid: int) -> int:
    """Return how many bytes a process has read and written, files and connections alike; 0 where that is not shown."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            counts = dict(line.split(": ") for line in file.read().splitlines())
    except OSError:
        return 0
    return int(counts["rchar"]) + int(counts["wchar"])


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process; TimeoutExpired where it does not move."""
    stall = Stall(lambda: bytes_of(process.pid), SECONDS_OF_COPY)
    while process.returncode is None:
        try:
            process.wait(min(STEP, SECONDS_OF_COPY))
        except subprocess.TimeoutExpired:
            if stall.is_over():
                raise
