"""A command that is run with GPUs: its words, an engine's, which must be told of them, and systemd's around it."""

from __future__ import annotations

import os

from amd_ctk.engine_words import ENGINES, find_run
from amd_device_spec.request import VISIBLE_DEVICES
from amd_gpu_tracker import Reservation
from amdgpu_discovery.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


SYSTEMD_RUN = "systemd-run"
PASSED_ON = ("-e", VISIBLE_DEVICES, "-e", Reservation.VARIABLE)
LONGEST_DEFAULT_NAME = 40
# Variables that name a job, and what is put before their value. Each user of a JupyterHub runs the same program.
NAMING = (("AMD_CTK_JOB_NAME", ""), ("JUPYTERHUB_USER", "jupyter-"), ("SLURM_JOB_NAME", ""))
# Of an engine's own options in front of its command; a job may have a hundred thousand words.
MOST_ENGINE_WORDS = 64


class PlannedJob(Value):
    """A command that is to have GPUs, its name and what it asks for; `wait` as in the option, None where it does not.

    With `is_unit` the command can open no other GPU. With `reservation` it has the GPUs of that. What is spare ends as
    soon as somebody waits for its GPUs.
    """

    words: tuple[str, ...]
    name: str
    request: str
    wait: str | None
    reservation: str
    is_spare: bool
    is_unit: bool


def with_token(words: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    """Return the words of a command; `docker run` and its like with what hands the GPUs on, and with `options`."""
    position = find_run(words)
    if position is None:
        return list(words)
    # In front of the caller's own options: of two values of a variable, engines take the last.
    return [*words[: position + 1], *PASSED_ON, *options, *words[position + 1 :]]


def not_told(words: Sequence[str]) -> str:
    """Return a warning where an engine stands behind another program, as `sudo`, and is not told about the GPUs."""
    if find_run(words) is not None or Reservation.VARIABLE in " ".join(words):
        return ""
    # A script may be one word: sh -c 'exec docker run ...'.
    inner = [part for word in words for part in word.split()]
    engines = [start for start, word in enumerate(inner) if start and os.path.basename(word) in ENGINES]
    for start in engines:
        position = find_run(inner[start : start + MOST_ENGINE_WORDS])
        if position is not None:
            command = f"{os.path.basename(inner[start])} {inner[start + position]}"
            return (
                f"'{command}' is not the first word of the command, so its container is not given the GPUs"
                f" (write '{command} {' '.join(PASSED_ON)}')"
            )
    return ""


def in_unit(words: Sequence[str], properties: Sequence[str]) -> list[str]:
    """Return the words that run a command in a scope of systemd with these properties.

    A scope is the calling process itself, so that signals, exit code and environment stay.
    """
    options = [word for each in properties for word in ("-p", each)]
    return [SYSTEMD_RUN, "--scope", "--quiet", "--collect", *options, "--", *words]


def default_name(words: Sequence[str], environment: Mapping[str, str], pid: int) -> str:
    """Return what a job is called that was given no name: what it is part of, or its program; with a number of its own.

    What starts many jobs says in the environment which one this is.
    """
    named = (prefix + environment[variable] for variable, prefix in NAMING if environment.get(variable))
    name = next(named, os.path.basename(words[0]))[:LONGEST_DEFAULT_NAME]
    letters = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in name)
    return f"{letters.strip('-') or 'job'}-{pid}"
