"""Start a command with GPUs: complete its arguments, also for engines, and replace this process by it.

The parent of this process notices no difference.
"""

from __future__ import annotations

import itertools
import os

from amd_ctk.engines.engine_words import (
    ENGINES,
    SUDO,
    find_run,
    keep_through_sudo,
    options_before_run,
    without_prefixes,
)
from amd_device_spec.request import VISIBLE_DEVICES
from amd_device_spec.slurm.job_gpus import FILTERS
from amd_gpu_tracker import Reservation, WaitRefused
from amdgpu_discovery.command_line.process import CannotRun, CommandNotFound, replace_process, require_program
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

SYSTEMD_RUN = "systemd-run"
VARIABLES = (VISIBLE_DEVICES, Reservation.VARIABLE)
PASSED_ON = ("-e", VISIBLE_DEVICES, "-e", Reservation.VARIABLE)
LONGEST_DEFAULT_NAME = 40
# Variables that name a job, and a prefix for their value. All users of a JupyterHub run the same program.
NAMING = (("AMD_CTK_JOB_NAME", ""), ("JUPYTERHUB_USER", "jupyter-"), ("SLURM_JOB_NAME", ""))
# The limit for an engine's options in front of its command; a job may have a hundred thousand arguments.
MOST_ENGINE_ARGS = 64
# Engines whose options are not read.
OTHER_ENGINES = ("nerdctl", "ctr", "buildah", "podman-remote")
COMPOSE_PROGRAMS = ("docker-compose", "podman-compose")
COMPOSE_ENGINES = ("docker", "podman", "nerdctl")
# Options in front of Compose's command whose value is the next argument.
COMPOSE_VALUES = frozenset(
    (
        *("-f", "--file", "-p", "--project-name", "--profile", "--env-file"),
        *("--project-directory", "--ansi", "--parallel", "--progress"),
    )
)
# Commands of Compose that make containers.
START = ("up", "run", "create")


def require_command(argv: Sequence[str], wait: str | None) -> None:
    """Raise if waiting for GPUs would be in vain: the program is missing, or the time to `wait` is in its place."""
    program = argv[0]
    try:
        require_program(program)
    except CannotRun as error:
        if wait == "" and program.rstrip("smhd").isdecimal():
            raise WaitRefused(f"{program!r} is not a program", hint=f"write --wait={program}") from None
        if isinstance(error, CommandNotFound) and not program.startswith(("/", ".")) and {"/", ":"} & {*program}:
            raise CommandNotFound(error.message, hint=f"for an image: amd-ctk run -- docker run {program}") from None
        raise


def become(argv: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Replace this process by a command, which keeps the process id and with it the reservation; CannotRun.

    The caller's filters would choose again among the job's GPUs, so those that are not in `environment` are removed.
    """
    inherited = {name: value for name, value in os.environ.items() if name not in (*FILTERS, Reservation.VARIABLE)}
    replace_process(argv, {**inherited, **environment})


class GivenGpus(Value):
    """The GPUs of a job and their variables; in a preview without GPUs, `message` says what the job would wait for."""

    numbers: tuple[int, ...] = ()
    environment: dict[str, str] = {}  # noqa: RUF012 - values are immutable, and it is never changed
    message: str = ""
    # The time limit; 0 for none.
    seconds: int = 0


class PlannedJob(Value):
    """A command that is to get GPUs, its name and its request; `wait` as in the option, None without it.

    With `is_unit`, the command can open no other GPU. With `reservation`, it gets the GPUs of this reservation. A spare
    job ends as soon as somebody waits for its GPUs.
    """

    argv: tuple[str, ...]
    name: str
    request: str
    wait: str | None
    reservation: str
    is_spare: bool
    is_unit: bool
    # The memory of each GPU, as in 8GiB; "" for all.
    vram: str = ""
    # The part of each GPU that it gets by this, in MiB; 0 for whole GPUs.
    part_mib: int = 0


def through_sudo(argv: Sequence[str]) -> list[str]:
    """Return the command line. If it is `sudo docker run` or the like, sudo keeps the variables of the job."""
    return keep_through_sudo(argv, VARIABLES)


def with_token(argv: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Return the command line. `docker run` and the like also pass on the GPUs, and get `options`."""
    position = find_run(argv)
    if position is None:
        return list(argv)
    # In front of the caller's own options, because engines use the last value of a variable.
    return [*argv[: position + 1], *PASSED_ON, *options, *argv[position + 1 :]]


def find_gpu_warning(argv: Sequence[str]) -> str:
    """Return a warning if an engine does not get the GPUs: it follows a program such as `sudo`, or is unknown."""
    if find_run(argv) is not None or Reservation.VARIABLE in " ".join(argv):
        return ""
    # A script may be one argument: sh -c 'exec docker run ...'.
    inner = [part for arg in argv for part in arg.split()]
    engines = [start for start, arg in enumerate(inner) if start and os.path.basename(arg) in ENGINES]
    for start in engines:
        position = find_run(inner[start : start + MOST_ENGINE_ARGS])
        if position is not None:
            return _warning_of_run(inner, start, start + position)
    return _find_other_warning(without_prefixes(argv).argv[:MOST_ENGINE_ARGS])


def _warning_of_run(inner: Sequence[str], start: int, run: int) -> str:
    """Return the warning for an engine's `run`, with words that give its container the GPUs."""
    command = f"{os.path.basename(inner[start])} {inner[run]}"
    # sudo drops the variables that the engine is to pass on.
    sudo = "sudo -E " if any(os.path.basename(word) == SUDO for word in inner[:start]) else ""
    return (
        f"'{command}' is not the first word of the command, so its container is not given the GPUs"
        f" (write '{sudo}{command} --runtime=amd {' '.join(PASSED_ON)}')"
    )


def _find_other_warning(argv: Sequence[str]) -> str:
    """Return a warning for a command of an engine whose options are not read, "" for any other command."""
    name = os.path.basename(next(iter(argv), ""))
    variables = f"{VISIBLE_DEVICES} and {Reservation.VARIABLE}"
    if name in COMPOSE_PROGRAMS or (name in COMPOSE_ENGINES and "compose" in argv):
        # Few jobs use Compose.
        from amd_ctk.explain.compose_program import DEFAULT_FILES, OVERRIDES

        chosen = os.environ.get("COMPOSE_FILE", "").split(os.pathsep)
        files = (*argv, *chosen, *DEFAULT_FILES, *OVERRIDES)
        if _command_of_compose(argv) not in START or any(map(_names_token, files)):
            return ""
        return f"the Compose file does not pass the GPUs on (list {variables} under 'environment:')"
    if name not in OTHER_ENGINES or options_before_run(argv[1:])[1] is None:
        return ""
    return f"{name} is not told about the GPUs, so its container has none (pass on {variables}, with the AMD runtime)"


def _command_of_compose(argv: Sequence[str]) -> str:
    behind = argv[argv.index("compose") :] if "compose" in argv else argv
    pairs = itertools.pairwise(behind)
    return next((arg for before, arg in pairs if arg[:1] != "-" and before not in COMPOSE_VALUES), "")


def _names_token(arg: str) -> bool:
    """Return whether an argument is a file, perhaps after `--file=`, that passes the token on."""
    try:
        content = read_plain_file(arg.partition("=")[2] or arg)[0]
    except (OSError, ValueError):
        return False
    return Reservation.VARIABLE.encode() in content


def in_unit(argv: Sequence[str], properties: Sequence[str]) -> list[str]:
    """Return the command line that runs a command in a scope of systemd with these properties.

    A scope runs the command in the calling process, so signals, exit code and environment stay.
    """
    options = [arg for each in properties for arg in ("-p", each)]
    return [SYSTEMD_RUN, "--scope", "--quiet", "--collect", *options, "--", *argv]


def default_name(argv: Sequence[str], environment: Mapping[str, str], pid: int) -> str:
    """Return the name of a job that was given none: what it is part of, or its program, with the process id.

    Programs that start many jobs name each of them in the environment.
    """
    named = (prefix + environment[variable] for variable, prefix in NAMING if environment.get(variable))
    name = next(named, os.path.basename(argv[0]))[:LONGEST_DEFAULT_NAME]
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return f"{letters.strip('-') or 'job'}-{pid}"
