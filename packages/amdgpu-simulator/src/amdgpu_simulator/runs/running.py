"""The running simulations of a user: where their hosts are, so that another terminal can break a GPU."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from amdgpu_discovery.errors import FileError, ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_simulator.runs.namespace import has_mounts_below

HOST, LOCK = "host", "lock"
MOST_BREAKS = 1000
# A name is also the name of a directory.
LONGEST_PROGRAM_NAME = 64
NAME = re.compile(rf"(?!\.)[A-Za-z0-9_.-]{{1,{LONGEST_PROGRAM_NAME}}}")


class NoSimulation(ToolkitError):
    """No simulation of this name runs, or several run and none is named."""

    exit_code = 2


class NotAName(ToolkitError):
    """No simulation can have this name."""

    exit_code = 2


@contextmanager
def running_simulation(name: str) -> Iterator[tuple[str, str, int]]:
    """Register a simulation, with a directory for its host, until the context ends. Raises FileError.

    The descriptor is for the command, so that the simulation still counts as running if only the command is left of it.
    """
    if not NAME.fullmatch(name):
        hint = f"use --name with at most {LONGEST_PROGRAM_NAME} letters, digits, dots, dashes and underscores"
        raise NotAName(f"{name[:LONGEST_PROGRAM_NAME]!r} cannot name a simulation", hint=hint)
    with _locked():
        for old in _directories():
            # The directory of a simulation that was killed.
            if not _is_running(old):
                _remove(old)
        directory = _new_directory(name)
        descriptor = os.open(os.path.join(directory, LOCK), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield os.path.basename(directory), os.path.join(directory, HOST), descriptor
    finally:
        with _locked():
            os.close(descriptor)
            _remove(directory)


def find_simulation(name: str) -> tuple[str, Host]:
    """Return the running simulation, or the one of this name, and its host. Raises NoSimulation."""
    running = [each for each in _directories() if _is_running(each) and name in ("", os.path.basename(each))]
    names = [os.path.basename(each) for each in running]
    if not running:
        which = f"no simulation {name}" if name else "no simulation of this user"
        raise NoSimulation(f"{which} runs", hint="start one with the command 'run PROFILE -- COMMAND'")
    if len(running) > 1:
        raise NoSimulation(
            f"{len(running)} simulations are running", hint=f"choose one: --of {' or --of '.join(names)}"
        )
    return names[0], Host(os.path.join(running[0], HOST))


@contextmanager
def _locked() -> Iterator[None]:
    """Keep other simulations of this user from starting and ending meanwhile. Raises FileError."""
    base = _base()
    try:
        descriptor = os.open(base, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise FileError(f"{base} cannot be used: {reason(error)}", hint="set another TMPDIR") from error


def _remove(directory: str) -> None:
    # What is mounted there belongs to the machine.
    if not has_mounts_below(directory):
        shutil.rmtree(directory, ignore_errors=True)


def _new_directory(name: str) -> str:
    base = _base()
    for count in range(1, MOST_BREAKS):
        directory = os.path.join(base, name if count == 1 else f"{name}-{count}")
        with suppress(FileExistsError):
            os.mkdir(directory)
            return directory
    raise FileError(f"{base} is full of simulations named {name}", hint="end some, or use --name")


def _directories() -> list[str]:
    base = _base()
    return [os.path.join(base, name) for name in sorted(os.listdir(base))]


def _is_running(directory: str) -> bool:
    """Return whether the process that made the directory is alive; it holds a lock."""
    try:
        descriptor = os.open(os.path.join(directory, LOCK), os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _base() -> str:
    """Return the directory of this user's simulations; FileError if others may use it."""
    base = os.path.join(tempfile.gettempdir(), f"amd-ctk-simulations-{os.geteuid()}")
    try:
        with suppress(FileExistsError):
            os.mkdir(base, 0o700)
        state = os.lstat(base)
    except OSError as error:
        raise FileError(f"{base} cannot be made: {reason(error)}", hint="set another TMPDIR") from error
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.geteuid() or state.st_mode & 0o077:
        raise FileError(f"{base} is not a directory of this user alone", hint="remove it, or set another TMPDIR")
    return base
