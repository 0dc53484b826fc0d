"""docs/reference/files.md names every path that stands in the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs/reference/files.md"
PREFIXES = ("/etc/", "/run/", "/var/")


def test_every_path_of_the_code_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [path for path in sorted(set(paths_in_code())) if path.rstrip("/") not in page] == []


def paths_in_code() -> Iterator[str]:
    for file in CHECKOUT.glob("packages/*/src/**/*.py"):
        # Simulated hosts are made of paths; nobody's machine is.
        if "amdgpu_simulator" not in file.parts:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            docstrings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and node not in docstrings)
            yield from (str(node.value) for node in strings if is_path(node.value))


def is_path(value: object) -> bool:
    return isinstance(value, str) and value.startswith(PREFIXES) and " " not in value
