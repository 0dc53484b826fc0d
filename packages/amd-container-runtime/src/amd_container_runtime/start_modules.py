"""Puts the modules of a start file in place as if they had been imported. The launcher runs this from that file.

Python's own way finds, checks and locks each module, which takes a start longer than running it.
"""

from __future__ import annotations

import posix
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import ExtensionFileLoader
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from io import FileIO
    from types import CodeType, ModuleType
    from typing import Any

PACKAGE_FILE = "/__init__.py"
OURS = ("amd_", "amdgpu_")


def use_modules(untracked: Sequence[tuple[str, CodeType]], tracked: set[str], scanner: str, file: FileIO) -> None:
    """Run the untracked modules, and those in the rest of the file, with the names in `tracked`, when one is imported.

    `scanner` is the file of `_json`, "" to let Python look for it.
    """
    sys.meta_path.insert(0, LaterModules(tracked, scanner, file))
    run_modules(untracked)


def run_modules(modules: Sequence[tuple[str, CodeType]]) -> None:
    """Make modules and run them; each comes after those that it imports."""
    # Every import statement asks the module's specification whether it is still being imported.
    ready = ModuleSpec("start.modules", None)
    for name, code in modules:
        module: Any = type(sys)(name)
        module.__spec__ = ready
        module.__file__ = code.co_filename
        if code.co_filename.endswith(PACKAGE_FILE):
            module.__path__ = [code.co_filename.removesuffix(PACKAGE_FILE)]
        sys.modules[name] = module
    for name, code in modules:
        module = sys.modules[name]
        package, _, last = name.rpartition(".")
        if package:
            setattr(sys.modules[package], last, module)
        exec(code, module.__dict__)  # noqa: S102 - importlib does the same with the code of a file


class LaterModules:
    """Finds the modules that only some starts need. Python asks it for every module that is not there yet."""

    def __init__(self, tracked: set[str], scanner: str, file: FileIO) -> None:
        self._tracked, self._scanner, self._file = tracked, scanner, file
        self._uses_module_file = False

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        """Return how a module is loaded, None to leave it to Python's next finder."""
        if name == "_json":
            return self._find_scanner()
        if name not in self._tracked:
            return self._find_in_module_file(name)
        self._tracked = set()
        try:
            modules = loads(self._file.read())  # noqa: S302 - a file of root, like the compiled modules beside it
        except (OSError, EOFError, TypeError, ValueError):
            return None
        run_modules(modules)
        # Python would prefer the specification of a module that is there.
        sys.modules[name].__spec__ = None
        # Not importlib.abc.Loader, although it has its methods: importing that takes as long as all of a start.
        loader: Any = self
        return ModuleSpec(name, loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module, which has run already."""
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: it has run."""

    def _find_in_module_file(self, name: str) -> ModuleSpec | None:
        """Let Python look into the file with all modules from now on, for what only few starts need."""
        if self._uses_module_file or not name.startswith(OURS):
            return None
        self._uses_module_file = True
        from amdgpu_discovery.command_line.module_file import use_module_file

        file = use_module_file(sys.path[0])
        return file.find_spec(name) if file else None

    def _find_scanner(self) -> ModuleSpec | None:
        try:
            posix.stat(self._scanner)
        except OSError:
            return None
        return ModuleSpec("_json", ExtensionFileLoader("_json", self._scanner), origin=self._scanner)
