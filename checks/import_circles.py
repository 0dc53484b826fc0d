"""Find circles among the imports of the eight distributions. Example: python checks/import_circles.py packages/*/src

It finds circles of modules. If there are none, it finds circles of folders, which import from one another even though
none of their modules are in a circle.

Imports inside functions and for types count as well, because a reader of the module has to know the other one anyway.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path


def main(roots: list[str]) -> int:
    """Print every circle below these source directories; return 1 if there is one."""
    imports = read_imports(map(Path, roots))
    # A circle of modules makes a circle of their folders, which would be reported twice.
    circles = find_circles(imports) or find_circles(wings_of(imports))
    for circle in circles:
        print(f"import circle: {' -> '.join(circle)}")
    return 1 if circles else 0


def read_imports(roots: Iterable[Path]) -> dict[str, set[str]]:
    """Return, for each module below the roots, the modules there that it imports."""
    sources = {_module_name(path.relative_to(root)): path for root in roots for path in root.rglob("*.py")}
    return {
        name: set(parse_imports(path.read_text(encoding="utf-8"), sources.keys())) for name, path in sources.items()
    }


def parse_imports(source: str, known: Iterable[str]) -> Iterator[str]:
    """Yield the known modules that a module's source imports. All imports must be absolute."""
    known = set(known)
    for name in _imported_names(ast.parse(source)):
        # `from package import name` imports the module `name` if it exists, else a name in the package itself.
        for candidate in (name, name.rpartition(".")[0]):
            if candidate in known:
                yield candidate
                break


def without_packages(imports: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Return the imports without packages: they re-export names, and it is unknown from which module."""
    packages = {name for name in imports if any(other.startswith(f"{name}.") for other in imports)}
    return {name: set(others) - packages for name, others in imports.items() if name not in packages}


def wings_of(imports: Mapping[str, Set[str]]) -> dict[str, set[str]]:
    """Return the imports between wings: folders of distributions, and modules outside any folder."""
    wings: dict[str, set[str]] = {}
    for name, others in without_packages(imports).items():
        wings.setdefault(wing_of(name), set()).update({wing_of(other) for other in others} - {wing_of(name)})
    return wings


def find_circles(imports: Mapping[str, Iterable[str]]) -> list[tuple[str, ...]]:
    """Return a shortest circle for each group of modules that need each other. It ends with its first module."""
    reachable = {name: _reachable(name, imports) for name in imports}
    circles = []
    seen: set[str] = set()
    for name in sorted(imports):
        if name in reachable[name] and name not in seen:
            group = {other for other in reachable[name] if name in reachable[other]}
            seen |= group
            circles.append(min((_shortest_way_back(member, imports) for member in sorted(group)), key=len))
    return circles


def wing_of(module: str) -> str:
    """Return the folder of a distribution that contains a module, or the module itself if none does."""
    return ".".join(module.split(".")[:2])


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _reachable(start: str, imports: Mapping[str, Iterable[str]]) -> set[str]:
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = set(imports[ahead.pop()]) - found
        found |= new
        ahead.extend(new)
    return found


def _shortest_way_back(start: str, imports: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    ways: list[tuple[str, ...]] = [(start,)]
    for way in ways:
        for name in sorted(imports[way[-1]]):
            if name == start:
                return (*way, start)
            if not any(name in other for other in ways):
                ways.append((*way, name))
    raise AssertionError(f"{start} is in no circle")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
