"""The files of one engine that this process can read, as one: what they say about runtimes and other keys."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from amd_ctk.configuration.engine import Engine
from amdgpu_discovery.command_line.document import ABSENT, Document, DocumentError, KeyPath
from amdgpu_discovery.errors import ToolkitError, reason
from amdgpu_discovery.host import Host
from amdgpu_discovery.untrusted.plain_files import read_plain_file

# The longest files that come with an engine have 30 KiB, most of it comments.
LARGEST_ENGINE_FILE = 128 * 1024
# dockerd sets no limit, and a list of registries may be long.
LARGEST_OF_DOCKER = 4 * 1024 * 1024


class EngineFiles:
    """The readable files of an engine, in increasing priority; `problem` is that of `broken_file`, the first other."""

    def __init__(self, host: Host, engine: Engine, paths: Iterable[str], *, largest: int = LARGEST_ENGINE_FILE) -> None:
        """Read the files; none has to exist."""
        self._engine = engine
        self._documents: list[Document] = []
        self.broken_file = self.problem = ""
        for path in paths:
            try:
                self._documents.append(read_document(host, engine, path, largest=largest))
            except FileNotFoundError:
                continue
            except (OSError, ValueError, ToolkitError) as error:
                if not self.problem:
                    self.broken_file, self.problem = path, reason(error)

    def read_runtimes(self) -> tuple[dict[str, str], str]:
        """Return the program of each runtime by name, and the default runtime, "" if no file sets one."""
        programs: dict[str, str] = {}
        default = ""
        for document in self._documents:
            # containerd's own file may have no version. Then it has no runtimes either.
            with suppress(DocumentError):
                layout = self._engine.find_layout(document)
                programs |= layout.programs_in(document)
                default = layout.default_in(document) or default
        return programs, default

    def last(self, key: KeyPath) -> object:
        """Return the value of a key in the file of highest priority that sets it, ABSENT if none does."""
        return [ABSENT, *self.values(key)][-1]

    def values(self, key: KeyPath) -> list[object]:
        """Return the values of a key in the files that set it, in increasing priority."""
        found: list[object] = []
        for document in self._documents:
            with suppress(DocumentError):
                found.append(document.get(key))
        return [value for value in found if value is not ABSENT]


def read_document(host: Host, engine: Engine, path: str, *, largest: int) -> Document:
    """Read a file of an engine; OSError, ValueError, ToolkitError."""
    return engine.read(read_plain_file(host.path(path), largest=largest)[0].decode())


def find_missing(programs: Iterable[str]) -> Iterator[str]:
    """Yield the programs that are paths and do not exist."""
    yield from (path for path in programs if "/" in path and not os.path.exists(path))
