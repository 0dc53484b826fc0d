"""The lint session finds lines that do two things."""

from __future__ import annotations

import pytest

from one_thing import main

INSIDE = "a conditional expression inside another: write an 'if'"
UNPACKED = "a conditional expression that is unpacked in place: give it a name, or append in an 'if'"


def check(directory, source):
    (directory / "one.py").write_text(source)
    return main([str(directory)])


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("a = 1 if b else 2 if c else 3", [INSIDE]),
        ("a = f'{1 if b else 2}' if c else 3", [INSIDE]),
        ("a = 1 if (2 if b else 3) else 4", [INSIDE]),
        ("a = [1, *([2] if b else [])]", [UNPACKED]),
        ("f(*(a if b else c))\na = 1 if b else 2 if c else 3", [UNPACKED, INSIDE]),
    ],
)
def test_a_line_that_does_two_things_is_named_with_what_to_write(tmp_path, capsys, source, found):
    assert check(tmp_path, source) == 1

    assert capsys.readouterr().out == "".join(
        f"{tmp_path}/one.py:{line}: {advice}\n" for line, advice in enumerate(found, start=1)
    )


def test_one_conditional_expression_passes(tmp_path, capsys):
    assert check(tmp_path, "a = [1 if b else 2, *more]\nc = 3 if d else 4") == 0

    assert capsys.readouterr().out == ""
