"""What one container engine's configuration looks like, as data."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import Any

from amd_ctk.documents.document import ABSENT, Document, KeyPath, read_path
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

RUNTIME_PROGRAM = "amd-container-runtime"


def is_amd_runtime(program: str) -> bool:
    """Return whether a program, with or without a path, is the AMD runtime."""
    return os.path.basename(program) == RUNTIME_PROGRAM


class EngineLayout(Value):
    """Where the runtimes and related keys stand in one of an engine's configuration documents."""

    # The table of runtimes, and what the entry of one looks like for the path of a program.
    runtimes: KeyPath
    entry: Callable[[str], Any]
    # Where the program stands within such an entry.
    program: KeyPath
    default_runtime: KeyPath
    # Whether an entry of the right program has to be written anew.
    is_outdated: Callable[[Any], bool] = lambda _: False
    # None where CDI needs no switch.
    cdi: KeyPath | None = None
    # Runtimes that an engine has only while its table has none, and that have to be written beside the first one.
    otherwise_lost: tuple[tuple[str, Any], ...] = ()
    # Keys that a new file cannot do without.
    preamble: tuple[tuple[KeyPath, Any], ...] = ()

    def program_of(self, entry: Any) -> str:
        """Return the program of a runtime's entry, "" where it names none in this engine's way."""
        program = read_path(entry, self.program) if isinstance(entry, dict) or not self.program else ABSENT
        if isinstance(program, list):
            program = program[0] if program else ABSENT
        return program if isinstance(program, str) else ""

    def programs_in(self, document: Document) -> dict[str, str]:
        """Return the programs of a document's runtimes by name; DocumentError."""
        runtimes = document.get(self.runtimes)
        entries = runtimes.items() if isinstance(runtimes, dict) else ()
        return {str(name): self.program_of(entry) for name, entry in entries}

    def default_in(self, document: Document) -> str:
        """Return the default runtime that a document names, "" where it names none; DocumentError."""
        default = document.get(self.default_runtime)
        return default if isinstance(default, str) else ""


class Engine(Value):
    """One container engine."""

    name: str
    # Where its configuration is unless the user says otherwise.
    config_path: str
    read: Callable[[str], Document]
    find_layout: Callable[[Document], EngineLayout]
    # What to call when asking for a restart; "" where none is needed.
    service: str
    # Runtimes that need no entry.
    built_in: tuple[str, ...]
    # The command that judges a configuration, for the path of the file; None where an engine has none.
    check_command: Callable[[str], tuple[str, ...]] | None = None
    # Directives of the file that the daemon must not be given as options too, and these options.
    exclusive_options: tuple[tuple[str, str], ...] = ()
    # What such a program says when it is too old to judge.
    check_unknown: str = ""
    # Whether it prints the configuration as it understood it, so that a runtime which got lost is noticed.
    check_prints_configuration: bool = False
    # What to hand the checker for the text of the file.
    checked_text: Callable[[str], str] = lambda text: text
    # What to do where its configuration has another's runtime of the wanted name.
    foreign_hint: str = "choose another with --runtime-name"
    # What a new file begins with.
    new_text: str
    # Return this engine as it is on a host whose other files matter; None where they do not.
    on_host: Callable[[Host], Engine] | None = None
