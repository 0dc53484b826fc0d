"""What is below the command line does not know it."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src/amd_ctk"


def test_nothing_below_the_commands_imports_them() -> None:
    below = [path for path in SOURCE.rglob("*.py") if path.parts[-2] != "cli" and path.name != "__main__.py"]

    assert [path.name for path in below if "amd_ctk.cli" in imports_of(path)] == []


def imports_of(path: Path) -> set[str]:
    """Return the packages, two names deep, from which a module imports anything anywhere."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    names = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return {".".join(name.split(".")[:2]) for name in names}
