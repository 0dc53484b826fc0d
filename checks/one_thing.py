"""Check that a line does one thing: no conditional expression inside another, and none unpacked in place.

Example: python checks/one_thing.py packages/*/src
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path


def main(roots: list[str]) -> int:
    """Print each place, with what to write instead; return 1 if there is one."""
    found = [
        f"{path}:{line}: {advice}"
        for root in roots
        for path in sorted(Path(root).rglob("*.py"))
        for line, advice in sorted(find_places(ast.parse(path.read_bytes())))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


def find_places(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the lines of conditional expressions that are hard to read, and what to write instead."""
    for node in ast.walk(tree):
        if isinstance(node, ast.IfExp) and any(_has_conditional(part) for part in (node.test, node.body, node.orelse)):
            yield node.lineno, "a conditional expression inside another: write an 'if'"
        if isinstance(node, ast.Starred) and isinstance(node.value, ast.IfExp):
            yield (
                node.lineno,
                "a conditional expression that is unpacked in place: give it a name, or append in an 'if'",
            )


def _has_conditional(part: ast.expr) -> bool:
    return any(isinstance(node, ast.IfExp) for node in ast.walk(part))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
