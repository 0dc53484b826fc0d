"""Failures to record something: the last one of each record that no start and no release waits for.

A failure is a file in /run until the record works again. Only failures import this module.
"""

from __future__ import annotations

import os

from amdgpu_discovery.errors import FileError
from amdgpu_discovery.files import make_directories, replace_file
from amdgpu_discovery.untrusted.plain_files import read_plain_file
from amdgpu_discovery.untrusted.plain_json import dumps, loads
from amdgpu_discovery.untrusted.plain_text import printable

HISTORY, POLICY, DRAINS, METRICS = "history", "gpus", "drains", "metrics"
DIRECTORY = "unrecorded"
# Limit for a path and a reason.
LONGEST_UNRECORDED_TEXT = 5000


def note_failure(run_directory: str, record: str, problem: str) -> None:
    """Note why a record failed, if possible; `problem` names the path."""
    try:
        make_directories(f"{run_directory}/{DIRECTORY}", ignore_umask=True)
        content = dumps({"problem": problem}) + b"\n"
        replace_file(f"{run_directory}/{DIRECTORY}/{record}", content, mode=0o644)
    except (OSError, FileError):
        # If not even this can be written, doctor finds the problem in the directory itself.
        return


def clear_failure(run_directory: str, record: str) -> None:
    """Remove the note, because the record works again."""
    try:
        os.unlink(f"{run_directory}/{DIRECTORY}/{record}")
    except OSError:
        return


def read_failures(run_directory: str) -> dict[str, str]:
    """Return the records that do not work, with the reasons."""
    found = {}
    for record in (HISTORY, POLICY, DRAINS, METRICS):
        try:
            content = read_plain_file(f"{run_directory}/{DIRECTORY}/{record}")[0]
            found[record] = printable(str(loads(content)["problem"])[:LONGEST_UNRECORDED_TEXT])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
    return found
