"""Run programs that print or copy images, and end them if they stop moving bytes.

A registry may keep a connection open and send nothing.
"""

from __future__ import annotations

import io
import resource
import select
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from tempfile import TemporaryFile
from typing import IO

from amd_gpu_images.archives.docker_archive import read_archive
from amd_gpu_images.bounds import GIBIBYTE, ImageError, Reading
from amd_gpu_images.content.contents import Image
from amd_gpu_images.registries.registry_programs import last_line
from amdgpu_discovery.command_line.programs import Answer
from amdgpu_discovery.errors import reason

# Time limit without a byte of an image.
SILENT_TRANSFER_SECONDS = 120.0
# A registry may take minutes to assemble a large layer after it has received all of it.
SECONDS_OF_COPY = 600.0
# Seconds between two checks.
STEP = 1.0
# A waiting program reads and writes a few bytes for itself; fewer than this count as none.
LEAST = 4096
# Bytes to read from a program's error output.
LARGEST_ERROR = 4096
# Go's text for EFBIG.
TOO_LARGE = "file too large"


class Stall:
    """Measures how long a program has moved nothing; `moved` returns the total number of bytes that it has moved."""

    def __init__(self, moved: Callable[[], int], seconds: float, now: Callable[[], float] = time.monotonic) -> None:
        self._moved = moved
        self._seconds = seconds
        self._now = now
        self.begin()

    def begin(self) -> None:
        """Restart the measurement."""
        self._start = self._moved()
        self._since = self._now()

    def is_over(self) -> bool:
        """Return whether the program has moved too little for too long."""
        if self._moved() - self._start >= LEAST:
            self.begin()
        return self._now() - self._since > self._seconds


class Watched(io.RawIOBase):
    """The output of a program; ImageError if the program moves no bytes for too long."""

    def __init__(self, printing: subprocess.Popen[bytes]) -> None:
        # The raw pipe below the buffer, which is still empty.
        self._pipe = printing.stdout.raw  # type: ignore[union-attr]  # it prints to a pipe
        self._printing = printing

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # as BufferedReader calls it
        """Read the next bytes, and wait for them as long as the program moves bytes."""
        if not self._is_ready():
            stall = Stall(lambda: bytes_of(self._printing.pid), SILENT_TRANSFER_SECONDS)
            while not self._is_ready():
                if stall.is_over():
                    program = self._printing.args[0]  # type: ignore[index]  # a list
                    raise ImageError(stall_message(str(program), SILENT_TRANSFER_SECONDS), hint="try again")
        return int(self._pipe.readinto(buffer))

    def _is_ready(self) -> bool:
        return bool(select.select([self._pipe], [], [], min(STEP, SILENT_TRANSFER_SECONDS))[0])


def read_saved(engine: str, name: str, reading: Reading) -> Image:
    """Make an engine save an image and return it; nothing is written to disk. ImageError."""
    if name.startswith("-"):
        raise ImageError(f"{engine}:{name} does not name an image")
    return read_printed([engine, "save", name], f"{engine}:{name}", reading)


def read_printed(
    argv: Sequence[str], name: str, reading: Reading, *, largest_file: int = resource.RLIM_INFINITY
) -> Image:
    """Return the image in an archive that a program prints; `name` is its name in an ImageError.

    The program can write no file larger than `largest_file`.
    """
    # A file, because a full pipe would block the engine.
    with TemporaryFile() as errors, _print(argv, errors, largest_file) as printing:
        try:
            return read_archive(io.BufferedReader(Watched(printing)), name, reading)
        except ImageError as error:
            printing.terminate()
            raise _refusal(last_line(_read_errors(errors)), argv[0], name, largest_file) or error from error
        except BaseException:
            printing.terminate()
            raise


def run_until_stalled(argv: Sequence[str]) -> Answer:
    """Run a program for as long as it moves bytes, and return how it ended."""
    with TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
        except OSError as error:
            return Answer(problem=f"{argv[0]} cannot be run: {reason(error)}")
        with process:
            try:
                _wait(process)
            except subprocess.TimeoutExpired:
                return Answer(problem=stall_message(argv[0], SECONDS_OF_COPY), is_late=True)
            finally:
                if process.returncode is None:
                    process.kill()
        return Answer(errors=_read_errors(errors), exit_code=process.returncode)


def stall_message(program: str, seconds: float) -> str:
    """Return the message for a program that moved no bytes."""
    return f"{program} moved no byte for {seconds:g} seconds"


def bytes_of(pid: int) -> int:
    """Return how many bytes a process has read and written, in files and connections; 0 if unknown."""
    try:
        with open(f"/proc/{pid}/io", encoding="ascii") as file:
            counts = dict(line.split(": ") for line in file.read().splitlines())
    except OSError:
        return 0
    return int(counts["rchar"]) + int(counts["wchar"])


def _wait(process: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a process; TimeoutExpired if it moves no bytes."""
    stall = Stall(lambda: bytes_of(process.pid), SECONDS_OF_COPY)
    while process.returncode is None:
        try:
            process.wait(min(STEP, SECONDS_OF_COPY))
        except subprocess.TimeoutExpired:
            if stall.is_over():
                raise


def _print(argv: Sequence[str], errors: IO[bytes], largest_file: int) -> subprocess.Popen[bytes]:
    try:
        printing = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
    except OSError as error:
        raise ImageError(f"{argv[0]} cannot be run: {reason(error)}") from error
    # The program may have ended. If not, this is still early enough: it connects to a registry before it writes.
    with suppress(ProcessLookupError):
        resource.prlimit(printing.pid, resource.RLIMIT_FSIZE, (largest_file, largest_file))
    return printing


def _read_errors(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read(LARGEST_ERROR).decode("utf-8", "replace")


def _refusal(line: str, program: str, name: str, largest_file: int) -> ImageError | None:
    """Return the error for a program that printed these words; None if it printed nothing."""
    if line.endswith(TOO_LARGE):
        size = f"{largest_file / GIBIBYTE:.1f} GiB, half of the free space in /var/tmp"
        return ImageError(
            f"a layer of {name} takes more than {size}",
            hint="free some space there, or pull the image and name docker:NAME or podman:NAME",
        )
    return ImageError(f"{program} cannot save it: {line}") if line else None
