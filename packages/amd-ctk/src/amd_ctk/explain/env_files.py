"""Files of variables as after `--env-file`, as Docker and Podman each read them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from amd_ctk.engines.engine_words import DOCKER, PODMAN
from amd_ctk.explain.container import ExplainError
from amdgpu_discovery.errors import reason
from amdgpu_discovery.files import read_file

LARGEST_ENV_FILE = 1024 * 1024
# The limit of Go's bufio.Scanner, with which both engines read lines.
LONGEST_ENV_LINE = 64 * 1024 - 1
BOM = "\ufeff"
# What Podman strips in front of a name; Docker strips all white space of Unicode.
PODMAN_BLANKS = " \t\n\v\f\r"


def read_env_file(path: str, *, engine: str = DOCKER) -> Iterator[str]:
    """Yield the variables of a file as an engine reads it; ExplainError."""
    try:
        # The caller may name the pipe of <(command).
        read = read_file(path, largest=LARGEST_ENV_FILE)
        # Podman passes on bytes that are not UTF-8.
        text = read.decode(errors="replace" if engine == PODMAN else "strict")
    except (OSError, UnicodeDecodeError) as error:
        raise ExplainError(f"the environment file {path} cannot be read: {reason(error)}") from error
    find = _of_podman if engine == PODMAN else _of_docker
    for line in _lines(text.removeprefix("" if engine == PODMAN else BOM), path):
        yield from find(line, path)


def _lines(text: str, path: str) -> Iterator[str]:
    for line in text.split("\n"):
        if len(line.encode()) > LONGEST_ENV_LINE:
            raise _refused(path, "a line is too long")
        yield line.removesuffix("\r")


def _of_docker(line: str, path: str) -> Iterator[str]:
    entry = line.lstrip()
    if not entry or entry.startswith("#"):
        return
    name, equals, _ = entry.partition("=")
    if " " in name or "\t" in name:
        raise _refused(path, f"variable '{name}' contains whitespaces")
    if not name:
        raise _refused(path, f"no variable name on line '{entry}'")
    if equals or name in os.environ:
        yield entry if equals else f"{name}={os.environ[name]}"


def _of_podman(line: str, path: str) -> Iterator[str]:
    entry = line.lstrip(PODMAN_BLANKS)
    if entry.startswith("="):
        raise _refused(path, f'invalid variable: "{entry}"')
    if entry and not entry.startswith("#"):
        yield from podman_variables(entry, os.environ)


def podman_variables(entry: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield NAME=VALUE. A name alone takes the caller's value, if any; NAME* takes all names that begin so."""
    name = entry.lstrip(PODMAN_BLANKS)
    if "=" in name:
        yield name
    elif name.endswith("*"):
        yield from every_variable(environment, name.removesuffix("*"))
    elif name in environment:
        yield f"{name}={environment[name]}"


def every_variable(environment: Mapping[str, str], beginning: str) -> tuple[str, ...]:
    """Return the variables whose names begin so, as NAME=VALUE."""
    return tuple(f"{name}={value}" for name, value in environment.items() if name.startswith(beginning))


def _refused(path: str, why: str) -> ExplainError:
    return ExplainError(f"the environment file {path} is refused: {why}", hint="write one NAME=VALUE a line")
