"""What an expression of the code says, as far as can be read without running it.

What is known only at run time is a NAME in capitals. Constants are looked up in the module as it is imported, and a
function of the toolkit is read with the words that its caller gives it.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from itertools import product
from textwrap import dedent
from types import FunctionType, ModuleType
from typing import Any

# What stands for something that is known only at run time.
NAME = re.compile(r"[A-Z_]+")
# Of the words that functions hand to each other, and of the alternatives of one sentence.
DEEPEST = 4
MOST = 12
# Variables that hold why something failed.
REASONS = {"error", "message", "reason", "why", "words", "problem", "strerror", "problems", "refusal"}
NO_NAMES = {"str", "len", "repr", "sorted", "join"}
# Functions that repeat a word of the user, as far as it can be printed.
REPEATING = {"shown", "_shown", "printable"}


@dataclass
class Scope:
    """A function, what it was given, and its module, in which its names are looked up."""

    module: ModuleType
    function: ast.FunctionDef
    given: dict[str, list[str]] = field(default_factory=dict)
    depth: int = 0
    # Variables whose words are being looked up; one may be made of itself.
    asked: set[str] = field(default_factory=set)

    @property
    def parameters(self) -> set[str]:
        """Return the names of what it is given."""
        return {argument.arg for argument in _arguments(self.function)}

    def returned_type(self) -> str:
        """Return what it says it returns."""
        return ast.unparse(self.function.returns) if self.function.returns else ""

    def all_given(self) -> list[str]:
        """Return all words that it is given."""
        return [word for words in self.given.values() for word in words]

    def value_of(self, node: ast.expr) -> Any:
        """Return the class, function or constant that a name stands for; None for all others."""
        if isinstance(node, ast.Name):
            return vars(self.module).get(node.id) or self._imported.get(node.id) or vars(builtins).get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(self.value_of(node.value), ModuleType):
            return getattr(self.value_of(node.value), node.attr, None)
        return None

    def calls(self) -> Iterator[ast.Call]:
        """Yield every call in the function, but none in a function within it."""
        nodes = nodes_of(self.function)
        functions = [node for node in nodes if isinstance(node, ast.FunctionDef) and node is not self.function]
        inner = {id(node) for function in functions for node in nodes_of(function)}
        yield from (node for node in nodes if isinstance(node, ast.Call) and id(node) not in inner)

    def enter(self, function: FunctionType, call: ast.Call) -> Scope | None:
        """Return a function of the toolkit as it is called here; None where that is too deep."""
        if self.depth == DEEPEST or not function.__module__.startswith("amd"):
            return None
        inner = _definition(function)
        if inner is None:
            return None
        scope = Scope(sys.modules[function.__module__], inner, depth=self.depth + 1)
        names = [argument.arg for argument in _arguments(inner)]
        pairs = [*zip(names, call.args, strict=False), *((word.arg or "", word.value) for word in call.keywords)]
        scope.given = {**scope.defaults(), **{name: self.words(value) for name, value in pairs}}
        return scope

    def defaults(self) -> dict[str, list[str]]:
        """Return the words of parameters that need not be given."""
        arguments = self.function.args
        positional = zip(reversed(arguments.args), reversed(arguments.defaults), strict=False)
        named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        return {argument.arg: self.words(value) for argument, value in (*positional, *named) if value is not None}

    def words(self, node: ast.expr) -> list[str]:
        """Return the alternatives of what an expression says."""
        return list(dict.fromkeys(self._words(node)))[:MOST]

    def _words(self, node: ast.expr) -> Iterable[str]:
        if isinstance(node, ast.JoinedStr):
            return map("".join, product(*(self._part(part) for part in node.values)))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return map("".join, product(self._words(node.left), self._words(node.right)))
        if isinstance(node, (ast.IfExp, ast.BoolOp)):
            values = [node.body, node.orelse] if isinstance(node, ast.IfExp) else node.values
            return [word for value in values for word in self._words(value)]
        if isinstance(node, ast.Call):
            return self._call(node)
        return self._name(node) if isinstance(node, ast.Name) else _literal(node)

    def _part(self, node: ast.expr) -> list[str]:
        """Return what stands for a part of an f-string, which chooses between short words often."""
        value = node.value if isinstance(node, ast.FormattedValue) else node
        words = self.words(value)
        if isinstance(value, ast.IfExp) and len(words) == 2 and all(len(word.split()) < 2 for word in words):
            return [f"({''.join(words)})" if "" in words else "/".join(words)]
        return words

    def _name(self, node: ast.Name) -> Iterable[str]:
        if node.id in self.given:
            return self.given[node.id]
        value = None if node.id in self.parameters else self.value_of(node)
        if isinstance(value, (str, int, float)):
            return [str(value)]
        if node.id in self.asked:
            return [placeholder(node)]
        self.asked.add(node.id)
        assigned = [value for name, value in self._assignments() if name == node.id]
        said = [word for value in assigned for word in self._said_by(value)]
        self.asked.discard(node.id)
        return said or [placeholder(node)]

    def _said_by(self, value: ast.expr) -> Iterable[str]:
        """Return the words of what is put into a variable, none where they are known only at run time."""
        if is_text(value):
            return self._words(value)
        return [word for word in self._call(value) if " " in word] if isinstance(value, ast.Call) else []

    def _assignments(self) -> Iterator[tuple[str, ast.expr]]:
        for statement in nodes_of(self.function):
            if isinstance(statement, ast.Assign):
                target, value = statement.targets[0], statement.value
                several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                pairs = zip(target.elts, value.elts, strict=True) if several else [(target, value)]  # type: ignore[attr-defined]
                yield from ((name.id, said) for name, said in pairs if isinstance(name, ast.Name))

    def _call(self, node: ast.Call) -> Iterable[str]:
        made = self.value_of(node.func)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and node.args:
            return self._joined(node.args[0])
        inner = self.enter(made, node) if isinstance(made, FunctionType) else None
        if inner is None or inner.returned_type() != "str" or inner.function.name in REPEATING:
            return [placeholder(node)]
        returned = [statement.value for statement in nodes_of(inner.function) if isinstance(statement, ast.Return)]
        said = [word for value in returned if value is not None for word in inner.words(value) if word]
        return said if any(not NAME.fullmatch(word) for word in said) else inner.sentences() or [placeholder(node)]

    def _joined(self, node: ast.expr) -> list[str]:
        known = self.value_of(node)
        if isinstance(known, (tuple, list, dict)):
            return [", ".join(map(str, known))]
        texts = [str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant)]
        return [placeholder(node), *(text for text in texts if len(text.split()) > 1)]

    def sentences(self) -> list[str]:
        """Return every text with a variable in it, for a function that puts its words together from several."""
        texts = [node for node in nodes_of(self.function) if isinstance(node, ast.JoinedStr)]
        return [word for text in texts for word in self.words(text) if " " in word]

    @cached_property
    def _imported(self) -> dict[str, Any]:
        """Return what the function itself imports."""
        statements = [node for node in nodes_of(self.function) if isinstance(node, ast.ImportFrom) and node.module]
        return {
            name.asname or name.name: getattr(import_module(statement.module or ""), name.name, None)
            for statement in statements
            for name in statement.names
        }


@cache
def nodes_of(function: ast.FunctionDef) -> tuple[ast.AST, ...]:
    """Return all that a function is made of."""
    return tuple(ast.walk(function))


def makes_error(function: FunctionType) -> bool:
    """Return whether a function returns an error."""
    name = function.__annotations__.get("return", "")
    returned = vars(sys.modules[function.__module__]).get(name) or vars(builtins).get(name)
    return isinstance(returned, type) and issubclass(returned, Exception)


def is_text(node: ast.expr) -> bool:
    """Return whether an expression is text that stands in the code, or a choice of such."""
    if isinstance(node, ast.IfExp):
        return is_text(node.body) and is_text(node.orelse)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def placeholder(node: ast.expr) -> str:
    """Return the NAME that stands for what is known only at run time."""
    names = [word for word in re.findall(r"[A-Za-z_]+", ast.unparse(node)) if word not in NO_NAMES]
    if REASONS.intersection(names) or not names:
        return "REASON"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return "NUMBER"
    last = names[0] if isinstance(node, ast.Subscript) else _last_name(node, names)
    return last.strip("_").upper()


def _literal(node: ast.expr) -> list[str]:
    return [str(node.value)] if isinstance(node, ast.Constant) else [placeholder(node)]


def _last_name(node: ast.expr, names: list[str]) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call) and node.args:
        return placeholder(node.args[0])
    return names[0]


@cache
def _definition(function: FunctionType) -> ast.FunctionDef | None:
    statement = ast.parse(dedent(inspect.getsource(function))).body[0]
    return statement if isinstance(statement, ast.FunctionDef) else None


def _arguments(function: ast.FunctionDef) -> list[ast.arg]:
    return [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
