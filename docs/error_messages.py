"""Every sentence with which the toolkit refuses something, read from the calls in its code that make errors."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from pkgutil import walk_packages
from types import FunctionType, ModuleType

from amdgpu_discovery.errors import ToolkitError
from code_words import Scope, is_text, makes_error, nodes_of

# A sentence has at least one word; the rest may be known only at run time.
SENTENCE = re.compile(r"[a-z]{2}")
# Mistakes of a programmer, which no user reads.
NOT_FOR_USERS = ("amd_ctk.doctor.inside.become",)
PROGRAMS_WITHOUT_OTHER_NAME = ("amdgpu_discovery.simulate.__main__",)
BAD_COMMAND_LINE = 2
# What stands behind another sentence, in place of REASON.
NO_CODE = 0
# Fields of values in which a reason is handed on.
REASON_FIELDS = ("message", "problem", "reason", "words")


@dataclass(frozen=True, order=True)
class Message:
    """A sentence, what to do, and the exit code; NO_CODE for one that is only the reason of another."""

    text: str
    hint: str = ""
    exit_code: int = 1


def read_messages(packages: tuple[str, ...]) -> dict[str, set[Message]]:
    """Return the messages of each module of these packages."""
    names = [
        module.name
        for package in packages
        for module in walk_packages(import_module(package).__path__, f"{package}.")
        if not module.name.endswith("__main__") or module.name in PROGRAMS_WITHOUT_OTHER_NAME
    ]
    by_module = {
        name: messages_of(import_module(name), _source_of(name)) for name in names if name not in NOT_FOR_USERS
    }
    return {name: messages for name, messages in by_module.items() if messages}


def messages_of(module: ModuleType, source: str) -> set[Message]:
    """Return the messages of one module."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    scopes = [Scope(module, function) for function in functions]
    return {message for scope in scopes for message in _of_function(scope)}


def _source_of(name: str) -> str:
    found = find_spec(name)
    return Path(found.origin).read_text(encoding="utf-8") if found and found.origin else ""


def _of_function(scope: Scope) -> Iterator[Message]:
    # A part that may be left out is left out.
    scope.given = {name: words for name, words in scope.defaults().items() if words == [""]}
    for node in nodes_of(scope.function):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from _of_pair(node.value.elts, scope)
    for call in scope.calls():
        yield from _of_call(call, scope)
        told = [word.value for word in call.keywords if word.arg in REASON_FIELDS]
        yield from (Message(text, "", NO_CODE) for text in _sentences(told, scope))


def _of_pair(values: list[ast.expr], scope: Scope) -> Iterator[Message]:
    """Yield what a function returns as a sentence and its hint."""
    if len(values) == 2 and all(map(is_text, values)):
        texts, hints = _sentences(values[:1], scope), scope.words(values[1])
        yield from (Message(text, hint, NO_CODE) for text, hint in zip(texts, hints, strict=False))


def _of_call(call: ast.Call, scope: Scope) -> Iterator[Message]:
    made = scope.value_of(call.func)
    if ast.unparse(call.func) == "super().__init__":
        yield from _messages(call, scope, _exit_code_around(scope))
    elif ast.unparse(call.func) == "typer.BadParameter":
        yield from _messages(call, scope, BAD_COMMAND_LINE)
    elif isinstance(made, FunctionType):
        yield from _of_maker(made, call, scope)
    elif isinstance(made, type) and issubclass(made, ToolkitError):
        yield from _messages(call, scope, made.exit_code)
    elif isinstance(made, type) and issubclass(made, (ValueError, OSError)):
        yield from (Message(text, "", NO_CODE) for text in _sentences(call.args[-1:], scope))


def _of_maker(maker: FunctionType, call: ast.Call, scope: Scope) -> Iterator[Message]:
    """Yield the messages of a function that makes an error of the words that it is given here."""
    inner = scope.enter(maker, call) if makes_error(maker) else None
    if inner is None or not any(map(SENTENCE.search, inner.all_given())):
        return
    for made in inner.calls():
        error = inner.value_of(made.func)
        if isinstance(error, FunctionType):
            yield from _of_maker(error, made, inner)
        elif isinstance(error, type) and issubclass(error, ToolkitError):
            yield from _messages(made, inner, error.exit_code)


def _messages(call: ast.Call, scope: Scope, exit_code: int) -> Iterator[Message]:
    said = [hint for word in call.keywords if word.arg == "hint" for hint in scope.words(word.value)]
    # Where words within a choice are chosen too, these two are of both sides.
    hints = list(dict.fromkeys(hint if SENTENCE.search(hint) else "" for hint in (said[:1] + said[-1:]))) or [""]
    texts = _sentences(call.args[:1], scope) or (["REASON"] if any(hints) else [])
    # Where both are chosen by the same question, the first of one goes with the first of the other.
    pairs = zip(texts, hints, strict=True) if len(texts) == len(hints) else product(texts, hints)
    yield from (Message(text, hint, exit_code) for text, hint in pairs)


def _sentences(arguments: list[ast.expr], scope: Scope) -> list[str]:
    return [text for argument in arguments for text in scope.words(argument) if SENTENCE.search(text)]


def _exit_code_around(scope: Scope) -> int:
    """Return the exit code of the class that an initializer belongs to."""
    classes = [made for made in vars(scope.module).values() if isinstance(made, type)]
    owners = [made for made in classes if issubclass(made, ToolkitError) and made.__module__ == scope.module.__name__]
    above = {inspect.getsourcelines(made)[1]: made for made in owners}
    return above[max(line for line in above if line < scope.function.lineno)].exit_code if above else 1
