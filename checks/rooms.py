"""Enforce two lists that may only shrink: the tracker's modules that amd-ctk imports, and repeated class names.

Example: python checks/rooms.py packages/*/src

The lists are in rooms.txt. A new entry fails: import from a module that is listed, or choose a unique class name. An
entry that no longer applies fails too, so that its line is removed and cannot come back.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping, Set
from pathlib import Path

from import_circles import read_imports

KNOWN = Path(__file__).with_suffix(".txt")
FROM, TO = "amd_ctk", "amd_gpu_tracker"


def main(roots: list[str], known: Path = KNOWN) -> int:
    """Print the differences between the lists and these source directories; return 1 if there are any."""
    listed = {line for line in known.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")}
    paths = [Path(root) for root in roots]
    found = {*find_doors(read_imports(paths)), *find_doubles(read_classes(paths))}
    new = [f"new, choose another module or name: {line}" for line in sorted(found - listed)]
    gone = [f"gone, remove it from {known.name}: {line}" for line in sorted(listed - found)]
    print(*new, *gone, sep="\n", end="\n" if new or gone else "")
    return 1 if new or gone else 0


def find_doors(imports: Mapping[str, Set[str]]) -> Iterator[str]:
    """Yield each module of the tracker that amd-ctk imports."""
    needed = {other for name, others in imports.items() if _is_in(name, FROM) for other in others if _is_in(other, TO)}
    yield from (f"{FROM} imports {name}" for name in needed)


def find_doubles(modules_by_class: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield each name of a public class that several modules define, with these modules."""
    for name, modules in modules_by_class.items():
        if len(modules) > 1 and not name.startswith("_"):
            yield f"class {name}: {' '.join(sorted(modules))}"


def read_classes(roots: list[Path]) -> dict[str, list[str]]:
    """Return the modules that define a class at their top level, by the name of the class."""
    found: dict[str, list[str]] = {}
    for root in roots:
        for path in sorted(root.rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(module)
    return found


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
