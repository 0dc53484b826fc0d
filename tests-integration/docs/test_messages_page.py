"""docs/reference/messages.md has every sentence with which the code refuses something.

The page is made by reading the code with some understanding. Here it is read with none: whatever text stands in a call
that makes an error has to be on the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from support.documentation import CHECKOUT, read_page

PAGE = read_page("docs/reference/messages.md").replace("\\", "")
SENTENCES = re.findall(r"^- `(.+?)`", PAGE, re.MULTILINE)
FILES = sorted(CHECKOUT.glob("packages/*/src/**/*.py"))
# A class of errors by its definition, wherever it is.
DEFINITION = re.compile(r"^class (\w+)\((\w+)\):", re.MULTILINE)
SHOWN = re.findall(
    r"^```text\namd-container-runtime: (.*?)\n```$", read_page("docs/how-to/troubleshoot.md"), re.MULTILINE | re.DOTALL
)


@cache
def error_names() -> set[str]:
    """Return the names of ToolkitError and of every class that is one."""
    bases = dict(pair for file in FILES for pair in DEFINITION.findall(file.read_text(encoding="utf-8")))
    names = {"ToolkitError"}
    while more := {name for name, base in bases.items() if base in names} - names:
        names |= more
    return names


def texts_of_errors(file: Path) -> Iterator[str]:
    """Yield the texts of a file that stand in a call of an error, in pieces between what varies."""
    errors = error_names()
    for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in errors:
            said = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "hint")]
            for node in (node for value in said for node in ast.walk(value) if isinstance(node, ast.Constant)):
                yield str(node.value).strip()


def test_every_text_of_an_error_is_on_the_page() -> None:
    texts = {text: file.name for file in FILES for text in texts_of_errors(file)}

    assert {text: file for text, file in texts.items() if len(text.split()) > 1 and text not in PAGE} == {}


def test_errors_are_found_in_the_code() -> None:
    found = [text for file in FILES for text in texts_of_errors(file)]

    assert len(found) > 400
    assert "there is no runc and no crun to hand the container to" in found


@pytest.mark.parametrize("said", SHOWN)
def test_what_the_runtime_says_is_one_of_the_sentences(said: str) -> None:
    assert [sentence for sentence in SENTENCES if re.fullmatch(as_pattern(sentence), said, re.DOTALL)]


def as_pattern(sentence: str) -> str:
    """Return what a sentence is really like: behind the request that it is about, and with its hint."""
    words = re.escape(sentence).replace(r"\(s\)", "s?")
    words = re.sub(r"[A-Z][A-Z_]+", ".+?", re.sub("is/are|are/is", "(?:is|are)", words))
    return rf"(?:\S+: )?{words}(?:\n.*)?(?: \(.*\))?"


def test_no_subject_is_empty() -> None:
    parts = re.split(r"^## (.+)$", PAGE, flags=re.MULTILINE)[1:]

    assert [title for title, text in zip(parts[::2], parts[1::2], strict=True) if "\n- `" not in text] == []
