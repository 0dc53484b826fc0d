"""The structure of one container engine's configuration, as data."""

from __future__ import annotations

import os.path
from collections.abc import Callable
from typing import Any

from amdgpu_discovery.command_line.document import ABSENT, Document, KeyPath, read_path
from amdgpu_discovery.host import Host
from amdgpu_discovery.value import Value

RUNTIME_PROGRAM = "amd-container-runtime"


def is_amd_runtime(program: str) -> bool:
    """Return whether a program, with or without a path, is the AMD runtime."""
    return os.path.basename(program) == RUNTIME_PROGRAM


class EngineLayout(Value):
    """Where one version of an engine's configuration file has the runtimes and related keys."""

    # The table of runtimes, and the function that makes an entry for the path of a program.
    runtimes: KeyPath
    make_entry: Callable[[str], Any]
    # Where such an entry has the program.
    program: KeyPath
    default_runtime: KeyPath
    # Whether an entry with the right program must be rewritten.
    is_outdated: Callable[[Any], bool] = lambda _: False
    # The key that enables CDI; None if CDI needs none.
    cdi: KeyPath | None = None
    # The key that names the directories of CDI specs; None if there is none.
    cdi_directories: KeyPath | None = None
    # Runtimes that the engine provides only while its table is empty. They must be written beside the first new one.
    implicit_runtimes: tuple[tuple[str, Any], ...] = ()
    # Keys that a new file must have.
    preamble: tuple[tuple[KeyPath, Any], ...] = ()

    def program_of(self, entry: Any) -> str:
        """Return the program in a runtime's entry; "" if this engine would find none in it."""
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
        """Return the default runtime in a document, "" if it sets none; DocumentError."""
        default = document.get(self.default_runtime)
        return default if isinstance(default, str) else ""


class Engine(Value):
    """One container engine."""

    name: str
    # The configuration file unless the user names another.
    config_path: str
    read: Callable[[str], Document]
    find_layout: Callable[[Document], EngineLayout]
    # The service to restart; "" if no restart is needed.
    service: str
    # Runtimes that need no entry.
    built_in: tuple[str, ...]
    # Makes the command that checks a configuration file; None if the engine has none.
    check_command: Callable[[str], tuple[str, ...]] | None = None
    # Options of the daemon that name another file.
    file_options: tuple[str, ...] = ()
    # Directives of the file, each with the option of the daemon that excludes it.
    exclusive_options: tuple[tuple[str, str], ...] = ()
    # Message of a check command that is too old to judge.
    check_unknown: str = ""
    # Whether the check command prints the configuration as it understood it, which shows if the runtime was lost.
    check_prints_configuration: bool = False
    # Turns the text of the file into the text to check.
    checked_text: Callable[[str], str] = lambda text: text
    # Hint if a runtime of another program has the wanted name.
    foreign_hint: str = "choose another with --runtime-name"
    # Beginning of a new file.
    new_text: str
    # Adapts the engine to a host whose other files matter; None if none matter.
    on_host: Callable[[Host], Engine] | None = None


def ask_for_restart(engine: Engine, *, is_changed: bool) -> None:
    """Ask the user to restart the engine's daemon if its file changed."""
    if engine.service and is_changed:
        print(f"Please restart {engine.service} daemon", flush=True)
