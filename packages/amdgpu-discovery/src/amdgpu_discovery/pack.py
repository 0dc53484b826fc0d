"""Put the compiled modules that a program starts with into one file.

A container start imports some thirty small modules. Looking for each in the file system and reading it takes longer
than running them all, so whoever installs a program for good, as deb and rpm packages do, makes a pack: one file for
one version of python, read at once. Without it, or with one that does not fit, modules are imported as ever.

A pack lies in `__pycache__` beside the program it is for, has the magic number of a version of bytecode in its name
and holds one marshalled tuple: the code of `unpack`, and what that is called with. What only some runs need lies in
further files.
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
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    from amdgpu_discovery.unpack import PackedModule


# Modules of python's own that it does not load by itself.
LIBRARIES = ("_json", "fcntl")


def pack_path(program: str) -> str:
    """Return where the pack of a program is, for the python that runs this."""
    directory, _, name = program.rpartition("/")
    return f"{directory}/__pycache__/{name.removesuffix('.py')}.pack-{importlib.util.MAGIC_NUMBER.hex()}"


def write_pack(program: str, *, first: Sequence[str], later: Sequence[Sequence[str]] = ()) -> list[str]:
    """Write the pack of a program, whose modules are all below one directory; return its files. FileError.

    `first` are modules that every run needs, `later` are groups of which some runs need all; what they import comes
    with them. Each group has a file of its own.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    path = pack_path(f"{root}/{os.path.relpath(program, root)}")
    known: set[str] = set()
    at_once, *on_demand = (_Closure(root, names, known) for names in (first, *later))
    stamps = _stamps(root, {os.path.dirname(program), *(f"{root}/{name.partition('.')[0]}" for name in known)})
    files: dict[str, str] = {}
    for number, group in enumerate(on_demand, 1):
        write_unless_same(f"{path}-{number}", marshal.dumps(group.content))
        files.update((module[0], f"{path}-{number}") for module in group.modules)
    packed: Any = (stamps, at_once.content, files)
    # The last of all, because it leads to the others.
    write_unless_same(path, marshal.dumps((_compile(root, "amdgpu_discovery.unpack")[-1], packed)))
    return [path, *dict.fromkeys(files.values())]


def _stamps(root: str, directories: set[str]) -> dict[str, int]:
    """Return the time of each package."""
    for directory in directories:
        # Before their times are read: making one later would change them.
        os.makedirs(f"{directory}/__pycache__", exist_ok=True)
    return {os.path.relpath(directory, root): int(os.stat(directory).st_mtime) for directory in sorted(directories)}


def write_unless_same(path: str, content: bytes, *, durable: bool = False) -> None:
    """Write a file unless it is as it should be: packages run this after every change of theirs. FileError."""
    try:
        if read_file(path) == content:
            return
    except FileNotFoundError:
        pass
    replace_file(path, content, durable=durable)


class _Closure:
    """Modules below a directory with what they import and nobody had before, each behind those that it imports."""

    def __init__(self, root: str, names: Iterable[str], known: set[str]) -> None:
        """Start with modules by name; what is `known` is left out, and whatever is found is known then."""
        self._root = root
        self._known = known
        self._libraries: dict[str, str] = {}
        self.modules: list[PackedModule] = []
        self._add(names)

    @property
    def content(self) -> Any:
        """Return what `unpack.Group` describes."""
        return self._libraries, tuple(self.modules)

    def _add(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self._known:
                continue
            if name in LIBRARIES:
                self._libraries.update(_find_library(name))
            elif _find(self._root, name):
                self._known.add(name)
                self._add((*_parents(name), *_imports(_parse(self._root, name))))
                self.modules.append(_compile(self._root, name))


def _find_library(name: str) -> dict[str, str]:
    """Return the file of a module of python's own by its name, "" where it is built in, {} where it is not there."""
    if name in sys.builtin_module_names:
        return {name: ""}
    spec = importlib.util.find_spec(name)
    return {name: spec.origin} if spec and spec.origin else {}


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
    for statement in _at_once(tree.body):
        if isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
            yield statement.module
            yield from (f"{statement.module}.{alias.name}" for alias in statement.names)
        elif isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)


def _at_once(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Return the statements of a module, and of those that it tries."""
    for statement in body:
        if isinstance(statement, ast.Try):
            yield from statement.body
        yield statement


def _compile(root: str, name: str) -> PackedModule:
    """Return a module without what nobody reads at run time.

    That is docstrings, assertions, imports for the type checker, and annotations of functions; those of classes are
    the fields of values.
    """
    file = _find(root, name)
    tree = _parse(root, name)
    imports: list[Any] = [statement for statement in tree.body if _is_of_ours(root, statement)]
    tree.body = [statement for statement in tree.body if not (statement in imports or _is_for_checkers(statement))]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
    # What `from __future__ import annotations` says is said to the compiler instead, which saves importing it.
    flags = __future__.annotations.compiler_flag
    code = compile(tree, f"{root}/{file}", "exec", flags=flags, dont_inherit=True, optimize=2)
    names = tuple((entry.module, tuple(alias.name for alias in entry.names)) for entry in imports)
    return name, file, file.endswith("/__init__.py"), names, code


def _is_of_ours(root: str, statement: Any) -> bool:
    """Return whether a statement imports names of a module below the root, which `unpack` does faster by itself."""
    if not isinstance(statement, ast.ImportFrom) or not statement.module or not _find(root, statement.module):
        return False
    return not any(alias.asname or _find(root, f"{statement.module}.{alias.name}") for alias in statement.names)


def _is_for_checkers(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.ImportFrom):
        return statement.module == "__future__"
    is_guard = isinstance(statement, ast.If) and isinstance(statement.test, ast.Name) and not statement.orelse
    return is_guard and statement.test.id == "TYPE_CHECKING"  # type: ignore[attr-defined]
