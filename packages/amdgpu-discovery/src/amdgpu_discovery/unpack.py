"""Make the modules of a pack, which `pack` has put together; this module is compiled into every pack."""

from __future__ import annotations

import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType
    from typing import Any

    # Name, file below the root, whether it is a package, what it runs.
    PackedModule = tuple[str, str, bool, CodeType]

# Where images are the unit of change, every file and directory has this time, and nothing changes behind our back.
NEVER = 0


def unpack(root: str, stamps: dict[str, int], first: Sequence[PackedModule], later: bytes) -> None:
    """Run the modules that are needed `first`, and have those of `later` ready for when they are imported.

    A pack of other modules than those below `root` is passed over: replacing a file changes its directory's time.
    """
    if not stamps or any(_stamp(f"{root}/{package}") not in (stamp, NEVER) for package, stamp in stamps.items()):
        return
    for name, file, is_package, code in first:
        module = sys.modules[name] = type(sys)(name)
        module.__file__ = f"{root}/{file}"
        if is_package:
            module.__path__ = [module.__file__.rpartition("/")[0]]
        # Imports inside a package are told apart from those of a lone module by this.
        module.__package__ = name if is_package else name.rpartition(".")[0]
        exec(code, module.__dict__)
    sys.meta_path.insert(0, _Later(root, later))


def _stamp(directory: str) -> int:
    try:
        return int(posix.stat(directory).st_mtime)
    except OSError:
        return -1


class _Later:
    """Finds and loads modules of a pack, which are taken out of it when the first of them is imported."""

    def __init__(self, root: str, content: bytes) -> None:
        self._root = root
        self._content = content
        self._modules: dict[str, PackedModule] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """Return the spec of a module that is in the pack."""
        if self._content and name.startswith("amd"):
            import marshal

            self._modules = {module[0]: module for module in marshal.loads(self._content)}
            self._content = b""
        if name not in self._modules:
            return None
        _, file, is_package, _ = self._modules[name]
        make_spec: Any = type(__spec__ or sys.modules["builtins"].__spec__)
        spec = make_spec(name, self, origin=f"{self._root}/{file}", is_package=is_package)
        spec.has_location = True
        return spec

    def create_module(self, spec: object) -> None:
        """Leave making the module to python."""

    def exec_module(self, module: ModuleType) -> None:
        """Run a module."""
        exec(self._modules[module.__name__][3], module.__dict__)
