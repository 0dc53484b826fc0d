"""oci.conf, Slurm's calls of an OCI runtime, as a document in which that runtime is one entry.

Slurm has one runtime for all containers, so every runtime name in a path means that one. Its entry `{"program": ...,
"options": "--root=..."}` stands for the lines that call it. Sources: oci.conf(5), "runc using run" for users without
privileges, and the behaviour of three releases of Slurm.
"""

from __future__ import annotations

import shlex
from typing import Any

from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError, KeyPath

# %n node, %u user, %U its id, %j job, %s step, %t task, %b bundle. /bin/sh runs each line.
STEP = "%n.%u.%j.%s"
# The runtime must be the task's own process. TERM ends a shell in front of it, which Slurm takes for the end of the
# task, while the first process of a container ignores TERM unless it handles it.
RUN = f"run {STEP}.%t -b %b"
# Slurm queries at the end of a step, since 24.11 for task -1, so this covers every container of the step. Without an
# answer it kills none. Containers of root are in cgroups below the step's, where Slurm's own KILL does not reach.
FOR_EACH_CONTAINER = f"for c in {STEP}.*; do"
# Slurm queries as root, in a directory that the user may write. A forged state there could name any process to kill.
AS_USER = "setpriv --reuid=%U --regid=65534 --clear-groups"
# Commands without a state directory, for Slurm 22.05, which names the task.
PER_TASK = {
    "RunTimeQuery": f"state {STEP}.%t",
    "RunTimeKill": f"kill -a {STEP}.%t KILL",
    "RunTimeDelete": f"delete --force {STEP}.%t",
}
# Slurm starts a runtime with either of these.
STARTING = ("runtimerun", "runtimecreate")
# Selects the runtime's variables. It is no call of the runtime, so edits keep it.
ENVIRONMENT = "runtimeenvexclude"
RUNTIMES = "runtimes"
# A key of an entry: lines from an earlier version or a person.
LINES = "lines"


class OciConf(Document):
    """The text of oci.conf. An edit returns a new one in which all other lines are unchanged."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def is_empty(self) -> bool:
        """Whether no line sets anything."""
        return not any(map(_key_of, self._lines()))

    def get(self, path: KeyPath) -> Any:
        """Return the runtime, or its program, at `path`; ABSENT for everything else."""
        program = self._program()
        if program is None or path[:1] != (RUNTIMES,):
            return {} if path == (RUNTIMES,) and not self.is_empty else ABSENT
        entry = {"program": program, "options": self._root_option(), **self._other_lines()}
        if len(path) == 1:
            return {"amd": entry}
        # Any name means the one runtime.
        return entry if len(path) == 2 else entry.get(path[2], ABSENT)

    def set(self, path: KeyPath, value: Any) -> OciConf:
        """Make Slurm call this program; DocumentError for settings that Slurm does not have."""
        if path[:1] != (RUNTIMES,):
            raise DocumentError(
                "Slurm has one runtime, which every container of a job has", hint="remove --set-as-default"
            )
        entry = value if isinstance(value, dict) else {"program": value, "options": self._root_option()}
        lines = entry[LINES] if LINES in entry else _lines_of(entry)
        return OciConf("".join(f"{line}\n" for line in (*self._others(), *lines)))

    def remove(self, path: KeyPath) -> OciConf:
        """Remove all lines that call a runtime."""
        if path[:1] != (RUNTIMES,):
            return self
        return OciConf("".join(f"{line}\n" for line in self._others()))

    def _other_lines(self) -> dict[str, list[str]]:
        """Return the lines that call the runtime, if they differ from those that amd-ctk writes."""
        program, others = self._program(), self._others()
        found = [line for line in self._lines() if _key_of(line) and line not in others]
        return {} if found == _lines_of({"program": program or "", "options": self._root_option()}) else {LINES: found}

    def _program(self) -> str | None:
        """Return the program that starts containers, None if there is none."""
        return next(iter(self._starting_words()), None)

    def _root_option(self) -> str:
        """Return the program's option for the directory of containers' state, "" for none."""
        return next((word for word in self._starting_words() if word.startswith("--root=")), "")

    def _starting_words(self) -> list[str]:
        values = (line.partition("=")[2].strip().strip("\"'") for line in self._lines() if _key_of(line) in STARTING)
        return next((value.removeprefix("exec ").split() for value in values if value), [])

    def _lines(self) -> list[str]:
        return self.text.splitlines()

    def _others(self) -> list[str]:
        return [
            line for line in self._lines() if _key_of(line) == ENVIRONMENT or not _key_of(line).startswith("runtime")
        ]


def is_outdated(entry: Any) -> bool:
    """Return whether the lines of a runtime's entry differ from those that amd-ctk writes."""
    return isinstance(entry, dict) and LINES in entry


def _lines_of(entry: dict[str, str]) -> list[str]:
    return [f'{key}="{command}"' for key, command in _commands(**entry).items()]


def _commands(program: str, options: str) -> dict[str, str]:
    """Return Slurm's commands by their names in oci.conf."""
    call = " ".join(filter(None, (shlex.quote(program), options)))
    root = options.removeprefix("--root=")
    per_step = _per_step(f"{AS_USER} {call}", root) if root else {key: f"{call} {end}" for key, end in PER_TASK.items()}
    return {**per_step, "RunTimeRun": f"exec {call} {RUN}"}


def _per_step(call: str, root: str) -> dict[str, str]:
    """Return commands for all containers of a step, whose state is in the directory `root`."""
    each = f"cd {root} && {FOR_EACH_CONTAINER}"
    return {
        # Prints the state of a container that is still alive, if any is.
        "RunTimeQuery": f"{each} {call} state $c | grep -q 'status.*stopped' || break; done; {call} state $c",
        "RunTimeKill": f"{each} {call} kill -a $c KILL; done",
        "RunTimeDelete": f"{each} {call} delete --force $c; done",
    }


def _key_of(line: str) -> str:
    key, equals, _ = line.partition("#")[0].partition("=")
    return key.strip().lower() if equals else ""
