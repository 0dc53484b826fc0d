"""Files of variables as Compose reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amd_ctk.explain.compose_variables import finder, parse_variables
from amd_ctk.explain.container import ExplainError

# tests-integration/cdi/test_compose_files.py asked Compose, and writes the file again.
ANSWERS = Path(__file__).with_name("compose") / "variables-2.26.json"
CALLER = finder({"HOST": "h"})


def parsed(text):
    try:
        return parse_variables(text, CALLER)
    except ExplainError:
        return None


def test_files_come_to_what_compose_made_of_them():
    entries = json.loads(ANSWERS.read_bytes())

    wrong = [(entry, found) for entry in entries if (found := parsed(entry["text"])) != entry["variables"]]

    assert (len(entries), wrong) == (300, [])


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A='0'\nB=\"1\"\nC=2 # which\n", {"A": "0", "B": "1", "C": "2"}),
        ("\ufeffexport A = 1\r\n# B=2\r\n\r\nC: 3\r\n", {"A": "1", "C": "3"}),
        ("A=x\nB=${A}-$HOST-${NONE:-y}\nC='${A}'\n", {"A": "x", "B": "x-h-y", "C": "${A}"}),
        ("HOST\nNONE\n", {"HOST": "h"}),
        ('A="one\ntwo" # c\nB=2\n', {"A": "one\ntwo", "B": "2"}),
        ('A="\\$HOST \\101 \\t"\n', {"A": "$HOST \\101 \t"}),
        ("A=a#b\nB=a #b\n", {"A": "a#b", "B": "a"}),
    ],
)
def test_quotes_export_comments_and_variables(text, variables):
    assert parse_variables(text, CALLER) == variables


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A B=1\n", "the name 'A B' has a blank"),
        ("A$=1\n", "stands in the name"),
        ("A='1\n", "has no end"),
        ("A=${\n", "is an invalid template"),
        ("A=${NONE:?say it}\n", "required variable NONE is missing a value: say it"),
    ],
)
def test_variables_that_compose_refuses_are_refused(text, words):
    with pytest.raises(ExplainError, match=words.replace("'", ".?").replace("(", r"\(")):
        parse_variables(text, CALLER)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "text", ["A='" + "\\" * 500_000, "#\n" * 500_000, "A\n" * 200_000, "A" * 1_000_000, "=" * 10**6]
)
def test_a_large_file_costs_little(text):
    parsed(text)
