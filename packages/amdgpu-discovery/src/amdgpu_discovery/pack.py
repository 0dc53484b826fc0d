"""Put the compiled modules that a program starts with into one file.

A container start imports some thirty small modules. Looking for each in the file system and reading it takes longer
than running them all, so whoever installs a program for good, as deb and rpm packages do, makes a pack: one file for
one version of python, read at once. Without it, or with one that does not fit, modules are imported as ever.

A pack lies in `__pycache__` beside the program that reads it and holds, behind python's magic number, one marshalled
tuple: the code of `unpack` and what that is called with.
"""

from __future__ import annotations
import __future__

import ast
import importlib.util
import marshal
import os
import sys

from amdgpu_discovery.files import read_file, replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from amdgpu_discovery.unpack import PackedModule


# Modules of python's own that are not built in everywhere.
LIBRARIES = ("_json", "fcntl")


def pack_path(program: str) -> str:
    """Return where the pack of a program is, for the python that runs this."""
    directory, _, name = program.rpartition("/")
    return f"{directory}/__pycache__/{name.removesuffix('.py')}.{sys.implementation.cache_tag}.pack"


def write_pack(program: str, *, first: Sequence[str], later: Sequence[str]) -> list[str]:
    """Write the pack of a program, whose modules are all below one directory; return its files. FileError.

    `first` are modules that every run needs, `later` those that some runs need; what they import comes with them.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    at_once = _Closure(root)
    at_once.add(*first)
    on_demand = _Closure(root, known=at_once.names)
    on_demand.add(*later)
    path = pack_path(f"{root}/{os.path.relpath(program, root)}")
    packages = sorted({name.partition(".")[0] for name in at_once.names | on_demand.names})
    for directory in (os.path.dirname(program), *(f"{root}/{package}" for package in packages)):
        # Before their times are read: making one later would change them.
        os.makedirs(f"{directory}/__pycache__", exist_ok=True)
    stamps = {package: int(os.stat(f"{root}/{package}").st_mtime) for package in packages}
    unpack = _compile(root, "amdgpu_discovery.unpack")[3]
    packed = (unpack, stamps, at_once.modules, f"{path}-later", _libraries())
    _write(f"{path}-later", marshal.dumps(_one_by_one(root, on_demand, at_once.names)))
    _write(path, importlib.util.MAGIC_NUMBER + marshal.dumps(packed))
    return [path, f"{path}-later"]


def _one_by_one(root: str, on_demand: _Closure, known: frozenset[str]) -> dict[str, tuple[str, bool, bytes, list[str]]]:
    """Return modules by name, each with what it needs: few runs need more than some of them."""
    separate = {}
    for name, file, is_package, code in on_demand.modules:
        closure = _Closure(root, known)
        closure.add(name)
        needs = [module[0] for module in closure.modules if module[0] != name]
        separate[name] = (file, is_package, marshal.dumps(code), needs)
    return separate


def _write(path: str, content: bytes) -> None:
    """Write a file unless it is as it should be: packages run this after every change of theirs."""
    try:
        if read_file(path) == content:
            return
    except FileNotFoundError:
        pass
    replace_file(path, content)


def _libraries() -> dict[str, str]:
    specs = {name: importlib.util.find_spec(name) for name in LIBRARIES}
    return {name: spec.origin for name, spec in specs.items() if spec and spec.origin and spec.has_location}


class _Closure:
    """Modules below a directory, each behind those that it imports when it is imported."""

    def __init__(self, root: str, known: frozenset[str] = frozenset()) -> None:
        self._root = root
        self._seen = set(known)
        self.modules: list[PackedModule] = []

    @property
    def names(self) -> frozenset[str]:
        return frozenset(module[0] for module in self.modules)

    def add(self, *names: str) -> None:
        """Add modules and what they need."""
        for name in names:
            if name in self._seen or not _find(self._root, name):
                continue
            self._seen.add(name)
            self.add(*_parents(name), *_imports(_parse(self._root, name)))
            self.modules.append(_compile(self._root, name))


def _parents(name: str) -> Iterator[str]:
    package, dot, _ = name.rpartition(".")
    if dot:
        yield package


def _find(root: str, name: str) -> str:
    """Return the file of a module below the root, "" where it is somebody else's."""
    place = name.replace(".", "/")
    return next((file for file in (f"{place}/__init__.py", f"{place}.py") if os.path.isfile(f"{root}/{file}")), "")


def _parse(root: str, name: str) -> ast.Module:
    with open(f"{root}/{_find(root, name)}", "rb") as file:
        return ast.parse(file.read())


def _imports(tree: ast.Module) -> Iterator[str]:
    """Return what a module imports while it runs; what stands in functions is imported by those who call them."""
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
        elif isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)


def _compile(root: str, name: str) -> PackedModule:
    """Return a module without what nobody reads at run time: docstrings, assertions, imports for the type checker."""
    file = _find(root, name)
    tree = _parse(root, name)
    tree.body = [statement for statement in tree.body if not _is_for_checkers(statement)]
    # What `from __future__ import annotations` says is said to the compiler instead, which saves importing it.
    flags = __future__.annotations.compiler_flag
    code = compile(tree, f"{root}/{file}", "exec", flags=flags, dont_inherit=True, optimize=2)
    return name, file, file.endswith("/__init__.py"), code


def _is_for_checkers(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    is_guard = isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and not statement.orelse
    return is_guard and statement.test.id == "TYPE_CHECKING"  # type: ignore[attr-defined]
