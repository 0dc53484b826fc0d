"""oci.conf: how Slurm calls an OCI runtime, as a document in which that runtime is one entry.

Slurm has one runtime for all containers. Whatever name it is asked for by here, it is that one;
`{"program": ..., "options": "--root=..."}` stands for the lines that call it.
Source: oci.conf(5), "runc using run" for users without privileges, and what three releases of Slurm were seen to do.
"""

from __future__ import annotations

import shlex
from typing import Any

from amd_ctk.documents.document import ABSENT, Document, DocumentError, KeyPath

# %n node, %u user, %U its id, %j job, %s step, %t task, %b bundle. /bin/sh runs each line.
STEP = "%n.%u.%j.%s"
# The runtime must be the task's own process: TERM ends a shell in front of it, which Slurm takes for the end of the
# task, while the first process of a container ignores TERM unless it handles it.
RUN = f"run {STEP}.%t -b %b"
# Slurm asks at the end of a step, from 24.11 on for task -1, so each container of the step is meant. Without an answer
# it kills none, and those of root have cgroups below that of the step, where its own KILL does not reach.
OF_EACH = f"for c in {STEP}.*; do"
# It asks as root, in a directory that the user may write, where a forged state could name any process to be killed.
AS_USER = "setpriv --reuid=%U --regid=65534 --clear-groups"
# Where there is no such directory: Slurm 22.05, which names the task.
OF_TASK = {
    "RunTimeQuery": f"state {STEP}.%t",
    "RunTimeKill": f"kill -a {STEP}.%t KILL",
    "RunTimeDelete": f"delete --force {STEP}.%t",
}
# Slurm calls a runtime by either of these.
STARTING = ("runtimerun", "runtimecreate")
# Says which variables the runtime is given, and not how it is called.
ENVIRONMENT = "runtimeenvexclude"
RUNTIMES = "runtimes"
# Of an entry: what an earlier version, or a person, wrote.
LINES = "lines"


class OciConf(Document):
    """The text of oci.conf; an edit returns a new one in which every other line is as it was."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing."""
        return not any(map(_key_of, self._lines()))

    def get(self, path: KeyPath) -> Any:
        """Return the runtime, or its program, at `path`; ABSENT for everything else."""
        program = self._program()
        if program is None or path[:1] != (RUNTIMES,):
            return {} if path == (RUNTIMES,) and not self.is_empty else ABSENT
        entry = {"program": program, "options": self._root_option(), **self._other_lines()}
        # Of whatever name.
        return {"amd": entry} if len(path) == 1 else entry if len(path) == 2 else entry.get(path[2], ABSENT)

    def set(self, path: KeyPath, value: Any) -> OciConf:
        """Have Slurm call this program; DocumentError for what Slurm cannot be told."""
        if path[:1] != (RUNTIMES,):
            raise DocumentError(
                "Slurm has one runtime, which every container of a job has", hint="remove --set-as-default"
            )
        entry = value if isinstance(value, dict) else {"program": value, "options": self._root_option()}
        lines = entry[LINES] if LINES in entry else _lines_of(entry)
        return OciConf("".join(f"{line}\n" for line in (*self._others(), *lines)))

    def remove(self, path: KeyPath) -> OciConf:
        """Leave no line that calls a runtime."""
        if path[:1] != (RUNTIMES,):
            return self
        return OciConf("".join(f"{line}\n" for line in self._others()))

    def _other_lines(self) -> dict[str, list[str]]:
        """Return the lines that call the runtime, where they are not those that are written here."""
        program, others = self._program(), self._others()
        found = [line for line in self._lines() if _key_of(line) and line not in others]
        return {} if found == _lines_of({"program": program or "", "options": self._root_option()}) else {LINES: found}

    def _program(self) -> str | None:
        """Return the program that starts containers, None where none does."""
        return next(iter(self._starting_words()), None)

    def _root_option(self) -> str:
        """Return the option by which the program is told where containers' state is, "" for none."""
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
    """Return whether a runtime's entry is called in another way than is written here."""
    return isinstance(entry, dict) and LINES in entry


def _lines_of(entry: dict[str, str]) -> list[str]:
    return [f'{key}="{command}"' for key, command in _commands(**entry).items()]


def _commands(program: str, options: str) -> dict[str, str]:
    """Return what Slurm is to run, by the names of oci.conf."""
    call = " ".join(filter(None, (shlex.quote(program), options)))
    root = options.removeprefix("--root=")
    of_step = _of_step(f"{AS_USER} {call}", root) if root else {key: f"{call} {end}" for key, end in OF_TASK.items()}
    return {**of_step, "RunTimeRun": f"exec {call} {RUN}"}


def _of_step(call: str, root: str) -> dict[str, str]:
    """Return what ends all containers of a step, whose state is in the directory `root`."""
    each = f"cd {root} && {OF_EACH}"
    return {
        # The state of one that lives, if there is one.
        "RunTimeQuery": f"{each} {call} state $c | grep -q 'status.*stopped' || break; done; {call} state $c",
        "RunTimeKill": f"{each} {call} kill -a $c KILL; done",
        "RunTimeDelete": f"{each} {call} delete --force $c; done",
    }


def _key_of(line: str) -> str:
    key, equals, _ = line.partition("#")[0].partition("=")
    return key.strip().lower() if equals else ""
