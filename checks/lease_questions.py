"""Count the conditions that ask a lease what it is; fail if there are more than docs/maintain/scope.md allows.

Example: python checks/lease_questions.py packages/amd-gpu-tracker/src packages/amd-gpu-sharing/src

A condition is what `if`, `while` and filters test, an operand of `and`, `or` and `not`, and a side of a comparison. It
is a question if it reads one of FIELDS or compares with one of WORDS. Only modules that import leases count, and not
lease.py and kinds.py, which answer for all others. `--list` prints each question.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/maintain/scope.md"
MOST = re.compile(r"at most (\d+) questions")
KIND_MODULES = ("lease", "kinds")
# Of what a module imports that asks leases: `Lease`, `scan_leases`, `LeaseView`, `kind_of`.
NAMES = re.compile("Lease|(^|_)leases|kind_of")
# Values with fields of the same names, which are no leases.
OTHERS = {"claim", "demand", "ended", "request", "use"}
# What tells one kind of lease from another.
FIELDS = {
    *("kind", "is_by_name", "will_restart", "until", "limit", "reservation", "bundle", "unit", "begun"),
    *("is_spare", "spare_from", "is_preemptible", "is_preempted", "preemptible", "idle_since"),
}
WORDS = {"BY_API", "ENDING"}


def main(words: list[str], page: Path = PAGE) -> int:
    """Print the number of questions below these directories; return 1 if there are more than the page allows."""
    roots = [Path(word) for word in words if word != "--list"]
    found = [question for root in roots for question in find_questions(root)]
    most = int(MOST.findall(page.read_text(encoding="utf-8"))[0])
    if "--list" in words:
        print(*found, sep="\n")
    print(f"{len(found)} questions of {most}: what is this lease?")
    if len(found) > most:
        print(f"{len(found) - most} too many: give the classes of book/kinds.py a method, and ask that ('--list')")
    return 1 if len(found) > most else 0


def find_questions(root: Path) -> Iterator[str]:
    """Yield each question below a directory, with its place."""
    for path in sorted(root.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.stem not in KIND_MODULES and _knows_leases(tree):
            found = {(each.lineno, each.col_offset, ast.unparse(each)) for each in _conditions(tree) if _asks(each)}
            yield from (f"{path}:{line}: {text}" for line, _, text in sorted(found))


def _knows_leases(tree: ast.AST) -> bool:
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return any(NAMES.search(alias.name) for node in imports for alias in node.names)


def _conditions(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test
        elif isinstance(node, ast.comprehension):
            yield from node.ifs
        elif isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node.operand
        elif isinstance(node, ast.Compare):
            yield from (node, node.left, *node.comparators)


def _asks(node: ast.expr) -> bool:
    words = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    if isinstance(node, ast.Compare | ast.Call) and words & WORDS:
        return not words & OTHERS
    read = node.func if isinstance(node, ast.Call) else node
    return isinstance(read, ast.Attribute) and read.attr in FIELDS and _name_of(read.value) not in OTHERS


def _name_of(node: ast.expr) -> str:
    """Return `demand` for both `demand` and `place.demand`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
