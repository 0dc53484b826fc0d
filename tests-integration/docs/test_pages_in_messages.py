"""Pages that messages name exist under their titles, and no message names one by a path that only a checkout has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from amd_ctk.doctor.run import CHECKS
from amd_ctk.pages import TITLES
from support.documentation import read_page

CHECKOUT = Path(__file__).parents[2]
PAGE_OF_A_CHECKOUT = re.compile(r"\bdocs/[a-z-]+/[\w-]+\.md")
# Beside the checks, `doctor --prove` names one.
OF_PROVE = "maintain/hardware.md"


def test_pages_have_the_titles_that_wheels_show():
    assert {page: read_page(f"docs/{page}").splitlines()[0] for page in TITLES} == {
        page: f"# {title}" for page, title in TITLES.items()
    }


def test_each_page_that_a_message_names_has_its_title():
    assert {check.see.partition("#")[0] for check in CHECKS.values()} | {OF_PROVE} == set(TITLES)


def test_no_message_names_a_path_of_the_checkout():
    named = [
        (file.name, text)
        for file in CHECKOUT.glob("packages/*/src/**/*.py")
        for text in _messages(ast.parse(file.read_text(encoding="utf-8")))
        if PAGE_OF_A_CHECKOUT.search(text)
    ]

    assert named == []


def _messages(tree):
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings)
    return [node.value for node in strings if isinstance(node.value, str)]
