"""Make the modules of a pack, which `pack` has put together; the code of this module is in every pack."""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import CodeType, ModuleType
    from typing import Any

    # Name, file below the root, whether it is a package, which names it imports from which modules, what else it runs.
    PackedModule = tuple[str, str, bool, Iterable[tuple[str, Iterable[str]]], CodeType]
    # Files of python's own modules by name, "" for those that are built in, and modules, each behind those it imports.
    Group = tuple[Mapping[str, str], Iterable[PackedModule]]

# The time of every file and directory where whole images are deployed (ostree), so that nothing changes singly.
NEVER = 0
IMPORT: Any = sys.modules["_frozen_importlib"]
# Far more than a pack comes to; what is not needed of it costs nothing.
LARGEST_BYTES = 1 << 22


def unpack(root: str, stamps: Mapping[str, int], first: Group, later: Mapping[str, str]) -> None:
    """Make the modules that are needed `first`, and those `later` that are imported, by the file they are in.

    A pack of other modules than those below `root` is passed over: whoever replaces a file changes the time of its
    directory, of which `stamps` has that of each package.
    """
    for package, stamp in stamps.items():
        if int(posix.stat(f"{root}/{package}").st_mtime) not in (stamp, NEVER):
            return
    sys.meta_path.insert(0, _Later(root, later))
    _make_group(root, *first)


def _make_group(root: str, libraries: Mapping[str, str], modules: Iterable[PackedModule]) -> None:
    for name, file in libraries.items():
        if name not in sys.modules:
            _load_library(name, file)
    for module in modules:
        if module[0] not in sys.modules:
            _make(root, module)


def _load_library(name: str, file: str) -> None:
    """Load a module of python's own: the search for it takes longer than that."""
    import _imp

    spec = IMPORT.ModuleSpec(name, None, origin=file)
    try:
        if file:
            module = _imp.create_dynamic(spec)
            _imp.exec_dynamic(module)
        else:
            module = _imp.create_builtin(spec)
            _imp.exec_builtin(module)
    except ImportError:
        # It is somewhere else now, and whoever imports it looks for it.
        return
    sys.modules[name] = module


def _make(root: str, packed: PackedModule) -> None:
    """Make a module as importing it does, of which nobody asks for a spec."""
    name, file, is_package, imports, code = packed
    module = sys.modules[name] = type(sys)(name)
    module.__file__ = f"{root}/{file}"
    module.__package__ = name if is_package else name.rpartition(".")[0]
    if is_package:
        module.__path__ = [f"{root}/{name}"]
    namespace = module.__dict__
    for source, names in imports:
        # What is in another group may have to be looked for.
        theirs = (sys.modules.get(source) or IMPORT._gcd_import(source)).__dict__
        for imported in names:
            namespace[imported] = theirs[imported]
    exec(code, namespace)  # noqa: S102 - as import does


def _read(file: str) -> bytes:
    descriptor = posix.open(file, posix.O_RDONLY)
    try:
        return posix.read(descriptor, LARGEST_BYTES)
    finally:
        posix.close(descriptor)


class _Later:
    """Finds what is not needed at once, and makes it together with all that comes with it."""

    def __init__(self, root: str, later: Mapping[str, str]) -> None:
        self._root = root
        self._later = later

    def find_spec(self, name: str, _path: object, _target: object = None) -> Any:
        """Return the spec of a module that is in the pack, None for any other."""
        file = self._later.get(name)
        if file is None:
            return None
        try:
            group = sys.modules["marshal"].loads(_read(file))
        except (OSError, ValueError, EOFError, TypeError):
            return None
        _make_group(self._root, *group)
        return IMPORT.ModuleSpec(name, self, origin=sys.modules[name].__file__)

    def create_module(self, spec: Any) -> ModuleType:
        """Return the module, which is made by now."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is: it has run."""


# Where this runs from a pack, whoever read it has said where the modules are and what was packed.
if "packed" in globals():
    _load_library("gc", "")
    # No run lasts until anything is worth collecting.
    sys.modules["gc"].disable()
    unpack(root, *packed)  # type: ignore[name-defined]  # noqa: F821
