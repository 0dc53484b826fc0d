"""One file with the compiled modules of a container start, which reads it instead of forty others.

The packages' `assemble` writes it beside the modules; the launcher reads it, and start_modules.py puts the modules in
place. If it is missing, cut or of another Python, a start imports the modules themselves. Paths and line numbers are
the same either way.

The file: Python's magic number, the size of a value (4 bytes, big-endian), and two values in the form of `marshal`. The
first is what every start runs, the second are the modules that only a tracked start reads.
"""

from __future__ import annotations
import __future__

import ast
import marshal
from collections.abc import Mapping
from importlib.machinery import ExtensionFileLoader
from importlib.util import MAGIC_NUMBER, find_spec
from pathlib import Path
from types import CodeType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Documented = TypeVar("Documented", ast.Module, ast.ClassDef, ast.FunctionDef)

NAME = "start.modules"
READER = "amd_container_runtime/start_modules.py"
# What a start with GPUs loads, and what the tracker adds, including the packages around each.
# tests/test_import_budget.py holds both lists.
MODULES = {
    "amd_container_runtime": "create report runc shim",
    "amd_device_spec": "oci request settings start start.plan",
    "amd_gpu_tracker": "enabled",
    "amdgpu_discovery": "choices choices.oci_spec choices.selection driver driver.device_nodes driver.drm"
    " driver.kfd_topology errors files gpu host numbering untrusted untrusted.plain_json value",
}
TRACKED_MODULES = {
    "amd_gpu_tracker": "book book.history book.identity book.lease book.lock book.policy book.rootless book.state"
    " claims claims.claim claims.container claims.hook_entries claims.reservation leases leases.processes",
    "amdgpu_discovery": "untrusted.plain_files",
}
# Found by its path, because Python looks for it in three directories first.
SCANNER = "_json"


def write_start_file(directory: str, path: str = "") -> None:
    """Join the modules of a start below a directory that is on Python's module path; `path` is where it will lie."""
    top, final = Path(directory), Path(path or directory)

    def codes_of(modules: Mapping[str, Path]) -> list[tuple[str, CodeType]]:
        return [(name, compiled(modules[name])) for name in order if name in modules]

    def compiled(source: Path) -> CodeType:
        return _compile(source, str(final / source.relative_to(top)))

    every, all_of_tracked = _installed(top, MODULES), _installed(top, TRACKED_MODULES)
    tracked = {name: path for name, path in all_of_tracked.items() if name not in every}
    order = _in_order(every | tracked)
    # The launcher runs the first of these, and gives the rest to its `use_modules`.
    first = marshal.dumps((compiled(top / READER), codes_of(every), set(tracked), _path_of_scanner()))
    # A start at the same time, as during a repair, reads the whole former file.
    new = top / f"{NAME}.new"
    new.write_bytes(MAGIC_NUMBER + len(first).to_bytes(4, "big") + first + marshal.dumps(codes_of(tracked)))
    new.replace(top / NAME)


def _installed(top: Path, listed: Mapping[str, str]) -> dict[str, Path]:
    """Return the files of the listed modules, and of their packages, that are installed."""
    modules = {f"{package}.{module}" for package, names in listed.items() for module in names.split()}
    names = sorted(modules.union(listed))
    paths = {name: _file_of(top / name.replace(".", "/")) for name in names}
    return {name: path for name, path in paths.items() if path.exists()}


def _file_of(path: Path) -> Path:
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _read(path: Path) -> ast.Module:
    return ast.parse(path.read_bytes(), str(path))


def _in_order(modules: Mapping[str, Path]) -> list[str]:
    """Return the modules in an order in which each comes after those that it imports."""
    order: list[str] = []
    seen: set[str] = set()

    def add(name: str) -> None:
        if name in seen or name not in modules:
            return
        seen.add(name)
        add(name.rpartition(".")[0])
        for node in _read(modules[name]).body:
            if isinstance(node, ast.ImportFrom):
                add(node.module or "")
        order.append(name)

    for name in modules:
        add(name)
    return order


def _compile(source: Path, path: str) -> CodeType:
    """Return the code of a module without what only readers and type checkers need. Its lines keep their numbers."""
    lean = _Lean().visit(_read(source))
    flags = __future__.annotations.compiler_flag
    code: CodeType = compile(lean, path, "exec", flags=flags, dont_inherit=True)
    return code


class _Lean(ast.NodeTransformer):
    """Leaves out docstrings, annotations of functions, and `from __future__`, which the compiler is told instead."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        return self._without_docstring(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        return self._without_docstring(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.returns = None
        return self._without_docstring(node)

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        return None if node.module == "__future__" else node

    def _without_docstring(self, node: Documented) -> Documented:
        self.generic_visit(node)
        if ast.get_docstring(node, clean=False) is not None:
            node.body[0] = ast.copy_location(ast.Pass(), node.body[0])
        return node


def _path_of_scanner() -> str:
    """Return the file of SCANNER, "" if Python has it inside."""
    spec = find_spec(SCANNER)
    is_file = spec is not None and isinstance(spec.loader, ExtensionFileLoader)
    return str(spec.origin) if spec and is_file else ""
