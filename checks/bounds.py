"""Check that limits of one name have one value, in all distributions together.

Example: python checks/bounds.py packages/*/src

A limit is a constant of a module whose name begins or ends as in LIMIT. Whoever reads MOST_GPUS in two modules takes
them for the same number. Where the numbers differ, each name says what it bounds: MOST_LEASED_GPUS.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

LIMIT = re.compile("_?((LARGEST|LONGEST|MOST|DEEPEST)(_.*)?|(.*_)?(SECONDS|TIMEOUT))")


def main(roots: list[str]) -> int:
    """Print each limit that has several values, with its modules; return 1 if there is one."""
    values: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in (path for root in roots for path in sorted(Path(root).rglob("*.py"))):
        for name, value in read_limits(path):
            values[name][value].append(path.as_posix())
    several = {name: found for name, found in values.items() if len(found) > 1}
    for name, found in sorted(several.items()):
        print(f"{name} has several values; choose names that say what each bounds:")
        for value, paths in found.items():
            print(f"    {value}: {' '.join(paths)}")
    return 1 if several else 0


def read_limits(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the limits that a module defines at its top level, with their values."""
    for statement in ast.parse(path.read_bytes()).body:
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            continue
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for name in (target.id for target in targets if isinstance(target, ast.Name)):
            if LIMIT.fullmatch(name):
                yield name, read_value(statement.value)


def read_value(expression: ast.expr) -> str:
    """Return a number for arithmetic on numbers, so that 1 << 10 and 1024 are the same; else the source."""
    source = ast.unparse(expression)
    is_arithmetic = all(
        isinstance(node, (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant))
        for node in ast.walk(expression)
    )
    return str(eval(source)) if is_arithmetic else source  # noqa: S307  of this repository, and without names


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
