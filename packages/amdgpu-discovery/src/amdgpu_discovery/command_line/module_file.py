"""One file with all compiled modules of the toolkit, from which commands import instead of from a file for each.

The packages' `assemble` writes it beside the modules, which it has just compiled. If it is missing, cut or of another
Python, Python imports the modules themselves. Python needs eight system calls to find, check and read a module where it
lies, and four in this file.

The file: Python's magic number, the size of the table (4 bytes, big-endian), the table, and the modules, as `marshal`
writes them. The table has for each module whether it is a package, where it begins in the rest, and its size.
"""

from __future__ import annotations

import posix
import sys
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader, spec_from_file_location
from marshal import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _frozen_importlib import ModuleSpec
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import CodeType

    # Whether it is a package, where it begins, and its size.
    Place = tuple[bool, int, int]
    # The number of a file on its file system, and when it was written.
    Identity = tuple[int, int]

NAME = "all.modules"
# Of this size is what precedes the code in a compiled module (importlib/_bootstrap_external.py).
PYC_HEADING = 16
HEADING = 8
# What only tests and `amd-ctk simulate` import.
LEFT_OUT = "amdgpu_simulator"


def use_module_file(library: str) -> ModuleFile | None:
    """Let Python import the toolkit's modules from the file in a library; None if there is no such file."""
    try:
        heading, identity = _read(library, HEADING, 0)
        size = int.from_bytes(heading[4:], "big")
        table, _ = _read(library, size, HEADING)
        places = loads(table) if heading[:4] == MAGIC_NUMBER else {}  # noqa: S302 - a file of root, like the modules
    except (OSError, EOFError, TypeError, ValueError):
        return None
    file = ModuleFile(library, identity, HEADING + size, places)
    sys.meta_path.insert(0, file)
    return file


class ModuleFile:
    """Finds modules in the file. Python asks it for every module that has not been imported yet."""

    def __init__(self, library: str, identity: Identity, begin: int, places: Mapping[str, Place]) -> None:
        """Use the file in `library`, whose modules begin at this byte."""
        self.library, self.identity = library, identity
        self._begin, self._places = begin, places

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return how a module is loaded, None to leave it to Python's next finder."""
        place = self._places.get(name)
        if place is None:
            return None
        is_package, offset, size = place
        path = f"{self.library}/{name.replace('.', '/')}"
        file = f"{path}/__init__.py" if is_package else f"{path}.py"
        loader = _Loader(name, file)
        loader.code_in = (self, size, self._begin + offset)
        return spec_from_file_location(
            name, file, loader=loader, submodule_search_locations=[path] if is_package else None
        )


class _Loader(SourceFileLoader):
    """Python's own loader, but for the place of the code; where that cannot be read, it looks for the module's file."""

    code_in: tuple[ModuleFile, int, int]

    def get_code(self, fullname: str) -> CodeType | None:
        file, size, begin = self.code_in
        try:
            content, identity = _read(file.library, size, begin)
            # A repair has written the file again, and a service goes on; its table is that of the former file.
            if identity == file.identity:
                code: CodeType = loads(content)  # noqa: S302 - a file of root, like the modules beside it
                return code
        except (OSError, EOFError, TypeError, ValueError):
            pass
        try:
            return super().get_code(fullname)
        except FileNotFoundError as error:
            # Its package was removed while this program runs, which is told from other errors by this one.
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname) from error


def _read(library: str, size: int, begin: int) -> tuple[bytes, Identity]:
    """Return a part of the file and the file's identity.

    It is opened for each part, so that a program that closes all its files, as services do, can still import.
    """
    descriptor = posix.open(f"{library}/{NAME}", posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        status = posix.fstat(descriptor)
        return posix.pread(descriptor, size, begin), (status.st_ino, status.st_mtime_ns)
    finally:
        posix.close(descriptor)


def write_module_file(library: Path) -> None:
    """Join the compiled modules of the toolkit in a library."""
    places: dict[str, Place] = {}
    codes: list[bytes] = []
    begin = 0
    for name, file in _compiled(library):
        code = file.read_bytes()[PYC_HEADING:]
        places[name] = (file.name.startswith("__init__."), begin, len(code))
        codes.append(code)
        begin += len(code)
    table = dumps(places)
    # A command at the same time, as during a repair, reads the whole former file.
    new = library / f"{NAME}.new"
    new.write_bytes(MAGIC_NUMBER + len(table).to_bytes(4, "big") + table + b"".join(codes))
    new.replace(library / NAME)


def _compiled(library: Path) -> Iterator[tuple[str, Path]]:
    """Yield the names of the toolkit's modules and their compiled files."""
    for package in sorted(library.glob("amd*/__init__.py")):
        if package.parent.name == LEFT_OUT:
            continue
        for source in sorted(package.parent.rglob("*.py")):
            file = source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
            parts = source.relative_to(library).with_suffix("").parts
            if file.exists():
                yield ".".join(parts[:-1] if source.stem == "__init__" else parts), file
