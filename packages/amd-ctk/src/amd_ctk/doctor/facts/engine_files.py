"""What the configuration files of an engine say of the AMD runtime."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

from amd_ctk.configuration.engine import RUNTIME_PROGRAM, Engine
from amd_ctk.documents.document import ABSENT, Document, DocumentError, KeyPath
from amd_ctk.documents.toml_document import TomlDocument
from amd_ctk.engines.containerd import CONTAINERD, DROP_IN, MAIN_FILE, find_drop_in_layout
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.plain_files import read_plain_file
from amdgpu_discovery.value import Value

# The longest that come with an engine have 30 KiB, most of it comments.
LARGEST = 128 * 1024


class EngineFileFacts(Value):
    """The files of one engine; problems are those of the first file that has one."""

    broken_file: str = ""
    problem: str = ""
    # The program of the AMD runtime that a file names and that is not there.
    missing_program: str = ""
    runtimes: tuple[str, ...] = ()
    # The last one that a file names.
    default_runtime: str = ""


def read_engine_files(host: Host, engine: Engine, paths: Iterable[str]) -> EngineFileFacts:
    """Return what files say, the strongest last; a file that cannot be read is a fact too."""
    facts = EngineFileFacts()
    programs: dict[str, str] = {}
    for path in paths:
        try:
            document = _read_document(host, engine, path)
        except FileNotFoundError:
            continue
        except (OSError, ValueError, RecursionError, ToolkitError) as error:
            facts = facts if facts.problem else facts.replace(broken_file=path, problem=_why(error))
            continue
        found, default = _read(engine, document)
        programs |= found
        facts = facts.replace(default_runtime=default or facts.default_runtime)
    ours = {name: program for name, program in programs.items() if os.path.basename(program) == RUNTIME_PROGRAM}
    missing = [path for path in ours.values() if "/" in path and not os.path.exists(path)]
    return facts.replace(runtimes=tuple(ours), missing_program=next(iter(missing), ""))


def read_values(host: Host, engine: Engine, paths: Iterable[str], key: KeyPath) -> list[object]:
    """Return the values of a key in files, the strongest last; a file that cannot be read has none."""
    found: list[object] = []
    for path in paths:
        try:
            found.append(_read_document(host, engine, path).get(key))
        except (OSError, ValueError, RecursionError, ToolkitError):
            continue
    return [value for value in found if value is not ABSENT]


def _read_document(host: Host, engine: Engine, path: str) -> Document:
    return engine.read(read_plain_file(host.path(path), largest=LARGEST)[0].decode())


def _read(engine: Engine, document: Document) -> tuple[dict[str, str], str]:
    """Return the programs of a file's runtimes, and its default runtime, "" where it names none."""
    try:
        layout = engine.find_layout(document)
        entries, default = document.get(layout.runtimes), document.get(layout.default_runtime)
    except DocumentError:
        # containerd's own file may have no version, and then no runtime either.
        return {}, ""
    named = entries.items() if isinstance(entries, dict) else ()
    programs = {str(name): layout.program_of(entry) for name, entry in named}
    return programs, default if isinstance(default, str) else ""


def _why(error: Exception) -> str:
    return reason(error) if isinstance(error, OSError) else str(getattr(error, "message", error))


def read_containerd(host: Host) -> EngineFileFacts:
    """Return what config.toml says, else the drop-in that this toolkit writes."""
    main = read_engine_files(host, CONTAINERD, [MAIN_FILE])
    if main.problem or main.runtimes:
        return main
    drop_in = CONTAINERD.replace(find_layout=partial(find_drop_in_layout, TomlDocument("")))
    return read_engine_files(host, drop_in, [DROP_IN])
