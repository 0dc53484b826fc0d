"""Find code that inspects a message. Example: python checks/messages.py packages/*/src

Messages are for people, and their words may change. Code must use a field of the error or the answer instead. Output of
other programs may be inspected, if it has another name: `errors`, `output`, `text`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

# Names of messages, as attributes and as variables.
SENTENCES = ("hint", "message", "problem")
# "words" may also be a list, which has none of these methods.
ATTRIBUTES = (*SENTENCES, "reason", "words")
METHODS = (
    *("endswith", "find", "partition", "removeprefix", "removesuffix", "rfind", "rpartition", "rsplit", "split"),
    "startswith",
)
# These methods return the same message in another form.
FORMS = ("casefold", "lower", "strip", "upper")


def main(roots: list[str]) -> int:
    """Print every such place below these directories; return 1 if there is one."""
    found = [
        f"{path}:{line}: code looks into a message; ask for a field of the error or the answer"
        for root in roots
        for path in sorted(Path(root).rglob("*.py"))
        for line in find_inspections(path.read_text(encoding="utf-8"))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


def find_inspections(source: str) -> Iterator[int]:
    """Yield the lines in which a module inspects a message."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr) and (_searches(node) or _takes_apart(node)):
            yield node.lineno


def _takes_apart(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr in METHODS and not _takes_lines(node) and _is_sentence(node.func.value, ATTRIBUTES)


def _searches(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and any(
        isinstance(operator, (ast.In, ast.NotIn)) and _is_sentence(right)
        for operator, right in zip(node.ops, node.comparators, strict=True)
    )


def _takes_lines(node: ast.Call) -> bool:
    # Splitting a message into its lines for printing is allowed.
    return all(isinstance(word, ast.Constant) and word.value == "\n" for word in node.args)


def _is_sentence(node: ast.expr, attributes: tuple[str, ...] = SENTENCES) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FORMS:
        return _is_sentence(node.func.value, attributes)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str" and node.args:
        # str(error) is the message too.
        return isinstance(node.args[0], ast.Name) and node.args[0].id == "error"
    if isinstance(node, ast.Attribute):
        return node.attr in attributes
    return isinstance(node, ast.Name) and node.id in SENTENCES


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
