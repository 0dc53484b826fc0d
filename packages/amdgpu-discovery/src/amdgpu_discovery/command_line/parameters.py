"""Read a file with one line of parameters per job, for `run --each` and `swarm submit --each`."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Sequence

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.value import Value

STANDARD_INPUT = "-"
LARGEST_PARAMETER_FILE = 1 << 20
# Stands for the line in a command.
PLACE = "{}"


class ParametersError(ToolkitError):
    """A file of parameters cannot be used."""


class ParameterLine(Value):
    """A line of parameters: its number from 1, its stripped text, and the arguments into which a shell splits it."""

    number: int
    text: str
    args: tuple[str, ...]

    def fill(self, command: Sequence[str]) -> list[str]:
        """Return a command with the line in place of each {}. Without any {}, the line's arguments go to the end."""
        if any(PLACE in word for word in command):
            return [word.replace(PLACE, self.text) for word in command]
        return [*command, *self.args]


def read_parameters(path: str) -> str:
    """Return the text of a file, or of standard input for `-`; ParametersError if it is no text, or too long."""
    try:
        content = read_input(path, LARGEST_PARAMETER_FILE)
        if len(content) > LARGEST_PARAMETER_FILE:
            raise ParametersError(f"{path} has more than {LARGEST_PARAMETER_FILE} bytes", hint="submit it in parts")
        return content.decode()
    except OSError as error:
        raise ParametersError(f"{path} cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise ParametersError(f"{path} is not text in UTF-8") from error


def read_input(path: str, largest: int) -> bytes:
    """Return the bytes of a file, or of standard input for `-`; `largest` + 1 of them if there are more. OSError."""
    if path != STANDARD_INPUT:
        # Like standard input, a named pipe blocks until it has a writer.
        with open(path, "rb") as file:
            return file.read(largest + 1)
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return sys.stdin.buffer.read(largest + 1)


def parse_lines(text: str, where: str) -> list[ParameterLine]:
    """Parse the lines that are neither empty nor a comment (#); ParametersError."""
    lines = [
        ParameterLine(number=number, text=line.strip(), args=_split(line, number, where))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise ParametersError(f"{where} has no line with parameters")
    return lines


def lines_from(lines: Sequence[ParameterLine], first: int, where: str) -> list[ParameterLine]:
    """Return the lines from number `first` on; ParametersError if there are none."""
    chosen = [line for line in lines if line.number >= first]
    if not chosen:
        raise ParametersError(
            f"{where} has no line with parameters from line {first} on", hint=f"the last one is {lines[-1].number}"
        )
    return chosen


def _split(line: str, number: int, where: str) -> tuple[str, ...]:
    try:
        args = tuple(shlex.split(line))
    except ValueError as error:
        raise ParametersError(f"line {number} of {where} cannot be split into words: {str(error).lower()}") from error
    if any("\0" in word for word in args):
        raise ParametersError(f"line {number} of {where} has a NUL byte")
    return args
