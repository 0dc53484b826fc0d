"""A file with the parameters of many jobs: a job for each line, as `run --each` and `swarm submit --each` take it."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Sequence

from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.value import Value

STANDARD_INPUT = "-"
LARGEST_BYTES = 1 << 20
# Where a line stands in the command.
PLACE = "{}"


class ParametersError(ToolkitError):
    """A file of parameters that cannot be used."""


class ParameterLine(Value):
    """A line with parameters, counted from 1: without white space around it, and split into words as a shell does."""

    number: int
    text: str
    words: tuple[str, ...]

    def fill(self, words: Sequence[str]) -> list[str]:
        """Return the words of a command: the line in place of each {}, or its words at the end if there is none."""
        if any(PLACE in word for word in words):
            return [word.replace(PLACE, self.text) for word in words]
        return [*words, *self.words]


def read_parameters(path: str) -> str:
    """Return the text of a file, `-` for standard input; ParametersError if it is not one or too long."""
    try:
        content = read_input(path, LARGEST_BYTES)
        if len(content) > LARGEST_BYTES:
            raise ParametersError(f"{path} has more than {LARGEST_BYTES} bytes", hint="submit it in parts")
        return content.decode()
    except OSError as error:
        raise ParametersError(f"{path} cannot be read: {reason(error)}") from error
    except UnicodeDecodeError as error:
        raise ParametersError(f"{path} is not text in UTF-8") from error


def read_input(path: str, largest: int) -> bytes:
    """Return what is in a file, `-` for standard input; of more than `largest` bytes one more than these. OSError."""
    if path != STANDARD_INPUT:
        # A named pipe waits for its writer, as standard input does.
        with open(path, "rb") as file:
            return file.read(largest + 1)
    if sys.stdin is None:
        raise OSError(errno.EBADF, "standard input is closed")
    return sys.stdin.buffer.read(largest + 1)


def parse_lines(text: str, where: str) -> list[ParameterLine]:
    """Return the lines that are neither empty nor a comment (#); ParametersError."""
    lines = [
        ParameterLine(number=number, text=line.strip(), words=_split(line, number, where))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise ParametersError(f"{where} has no line with parameters")
    return lines


def lines_from(lines: Sequence[ParameterLine], first: int, where: str) -> list[ParameterLine]:
    """Return the lines from a number on; ParametersError if there is none."""
    chosen = [line for line in lines if line.number >= first]
    if not chosen:
        raise ParametersError(
            f"{where} has no line with parameters from line {first} on", hint=f"the last one is {lines[-1].number}"
        )
    return chosen


def _split(line: str, number: int, where: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(line))
    except ValueError as error:
        raise ParametersError(f"line {number} of {where} cannot be split into words: {str(error).lower()}") from error
    if any("\0" in word for word in words):
        raise ParametersError(f"line {number} of {where} has a NUL byte")
    return words
