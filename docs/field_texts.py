"""Read the texts below the fields of a class, which Python drops and documentation shows."""

from __future__ import annotations

import ast
import inspect
from itertools import pairwise
from textwrap import dedent


def about_fields(offered: type) -> dict[str, str]:
    """Return the text below each field of a class that has one."""
    try:
        source = dedent(inspect.getsource(offered))
    except (OSError, TypeError):
        return {}
    body = next(node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    return {
        field.target.id: text
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and (text := _text_of(below))
    }


def _text_of(statement: ast.stmt) -> str:
    """Return the text that a statement consists of, "" if it is another statement."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
