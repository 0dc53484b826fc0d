"""Hold each distribution to its row of docs/maintain/scope.md: its lines, its flat files, and its imports of others.

Example: python checks/scope.py packages/*/src

Lines are those of `ruff format`, without tests and data. Flat files are modules outside every folder. Imports inside
functions and for types count. A door is a package of which only its front page may be imported, and never at the top of
a module.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "docs/maintain/scope.md"
ROW = re.compile(
    r"\| `(?P<name>[\w-]+)` \| (?P<lines>[\d,]+) \| (?P<most>[\d,]+) \| (?P<flat>\d+)"
    r" \| (?P<imports>[^|]*) \| (?P<doors>[^|]*) \|"
)


class Row(NamedTuple):
    """What a distribution may have."""

    most: int
    flat: int
    imports: frozenset[str]
    doors: frozenset[str]


def main(roots: list[str], page: Path = PAGE) -> int:
    """Print the lines of each distribution, and what its row does not allow; return 1 if there is anything of that."""
    rows = read_rows(page.read_text(encoding="utf-8"))
    problems: list[str] = []
    for root in map(Path, roots):
        name = root.resolve().parent.name
        if name not in rows:
            problems.append(f"{name} has no row in {page.name}")
            continue
        lines = count_lines(root)
        print(f"{name}: {lines:,} lines of {rows[name].most:,}")
        if lines > rows[name].most:
            more = lines - rows[name].most
            problems.append(
                f"{name} is {more:,} over its limit: raise it in {page.name}, saying in the commit what users get"
            )
        flat = count_flat_files(root)
        if flat > rows[name].flat:
            problems.append(f"{name} has {flat} modules outside its folders, {rows[name].flat} are allowed")
        problems += find_forbidden(root, name, rows[name], {other.replace("-", "_"): other for other in rows})
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


def read_rows(text: str) -> dict[str, Row]:
    """Return the rows of the page by the names of their distributions."""
    return {
        match["name"]: Row(
            most=int(match["most"].replace(",", "")),
            flat=int(match["flat"]),
            imports=frozenset(re.findall(r"`([\w-]+)`", match["imports"])),
            doors=frozenset(re.findall(r"`([\w-]+)`", match["doors"])),
        )
        for match in ROW.finditer(text)
    }


def count_lines(root: Path) -> int:
    """Return the number of lines of all modules below a directory."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in root.rglob("*.py"))


def count_flat_files(root: Path) -> int:
    """Return the number of modules of a package that are in none of its folders."""
    return len(list(root.glob("*/*.py")))


def find_forbidden(root: Path, name: str, row: Row, packages: dict[str, str]) -> Iterator[str]:
    """Yield each import of another distribution that its row does not allow."""
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            for module in _imported(node):
                other = packages.get(module.partition(".")[0])
                if other is None or other == name or other in row.imports:
                    continue
                where = f"{path}:{getattr(node, 'lineno', 0)}"
                if other not in row.doors:
                    yield f"{where}: {name} may not import {other}"
                elif "." in module:
                    yield f"{where}: import this from {module.partition('.')[0]} itself, which is the only door"
                elif node in tree.body:
                    yield f"{where}: {other} may not be installed: import it in the function that needs it"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
