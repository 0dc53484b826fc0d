"""Make the modules of a pack, which `pack` has put together; the code of this module is in every pack."""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import CodeType, ModuleType
    from typing import Any

    # Name, file below the root, whether it is a package, what it runs.
    PackedModule = tuple[str, str, bool, CodeType]

# The time of every file and directory where whole images are deployed (ostree), so that nothing changes singly.
NEVER = 0
LOADERS: Any = sys.modules["_frozen_importlib_external"]


def unpack(
    root: str, stamps: Mapping[str, int], first: Sequence[PackedModule], later: str, libraries: dict[str, str]
) -> None:
    """Run the modules that are needed `first`, and find those in the file `later` when they are imported.

    `libraries` are the files of modules of python's own that are not built in: the search for them takes longer than
    loading them. A pack of other modules than those below `root` is passed over: whoever replaces a file changes the
    time of its directory.
    """
    if any(_stamp(f"{root}/{package}") not in (stamp, NEVER) for package, stamp in stamps.items()):
        return
    sys.meta_path.insert(0, _Pack(root, later, libraries))
    for module in first:
        _make(root, *module)


def _stamp(directory: str) -> int:
    return int(posix.stat(directory).st_mtime)


def _make(root: str, name: str, file: str, is_package: bool, code: CodeType) -> None:
    """Make a module as importing it does, of which nobody asks for a spec."""
    module = sys.modules[name] = type(sys)(name)
    module.__file__ = f"{root}/{file}"
    module.__package__ = name if is_package else name.rpartition(".")[0]
    if is_package:
        module.__path__ = [f"{root}/{name}"]
    exec(code, module.__dict__)  # noqa: S102 - as import does


class _Pack:
    """Finds and loads what is not needed at once."""

    def __init__(self, root: str, later: str, libraries: dict[str, str]) -> None:
        self._root = root
        self._later = later
        self._libraries = libraries
        # File, whether it is a package, what it runs, and what it imports, those first that others import.
        self._modules: dict[str, tuple[str, bool, bytes, Sequence[str]]] = {}

    def find_spec(self, name: str, _path: object, _target: object = None) -> Any:
        """Return the spec of a module that is in the pack, None for any other."""
        if name in self._libraries and posix.access(self._libraries[name], posix.R_OK):
            return LOADERS.spec_from_file_location(name, self._libraries[name])
        if self._later and name.startswith("amd"):
            self._read_later()
        if name not in self._modules:
            return None
        file, is_package, _, needs = self._modules[name]
        # Each import that comes here takes longer than most modules run.
        for need in needs:
            if need not in sys.modules:
                _make(self._root, need, *self._modules[need][:2], self._code(need))
        spec = LOADERS._bootstrap.ModuleSpec(name, self, origin=f"{self._root}/{file}", is_package=is_package)
        spec.has_location = True
        return spec

    def create_module(self, spec: object) -> None:
        """Leave making the module to python."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module."""
        exec(self._code(module.__name__), module.__dict__)  # noqa: S102 - as import does

    def _code(self, name: str) -> CodeType:
        import marshal

        code: CodeType = marshal.loads(self._modules[name][2])  # noqa: S302 - as `_read_later`
        return code

    def _read_later(self) -> None:
        import marshal

        path, self._later = self._later, ""
        try:
            with open(path, "rb") as file:
                self._modules = marshal.loads(file.read())  # noqa: S302 - written by whoever installed this program
        except (OSError, ValueError, EOFError, TypeError):
            return
