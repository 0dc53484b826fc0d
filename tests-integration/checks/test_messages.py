"""The lint session finds code that looks into a message."""

from __future__ import annotations

import pytest

from messages import find_inspections, main


@pytest.mark.parametrize(
    "line",
    [
        'if "is missing" in error.message: pass',
        'if "is missing" not in problem.hint: pass',
        'if "denied" in problem.lower(): pass',
        'if "denied" in str(error): pass',
        'path = message.partition(": ")[0]',
        'path = finding.words.split(" ", 1)[0]',
        'path = judgement.reason.split(" ", 1)[0]',
        "if error.message.startswith(start): pass",
        'if found.problem.strip().endswith("."): pass',
    ],
)
def test_code_that_looks_into_a_sentence_is_found(line):
    assert list(find_inspections(f"x = 1\n{line}\n")) == [2]


@pytest.mark.parametrize(
    "line",
    [
        "raise Failure(f'{path}: {error.message}')",
        'lines = error.message.split("\\n")',
        "lines = str(error).splitlines()",
        "if option in self.words: pass",
        'if "denied" in answer.errors: pass',
        "if error.is_missing and error.message != other.message: pass",
        "for problem in status.problems: pass",
    ],
)
def test_printing_a_sentence_or_reading_a_field_is_no_inspection(line):
    assert list(find_inspections(line)) == []


def test_each_place_is_named(tmp_path, capsys):
    (tmp_path / "module.py").write_text('\nfound = "x" in error.message\n')

    assert main([str(tmp_path)]) == 1

    sentence = "code looks into a message; ask for a field of the error or the answer"
    assert capsys.readouterr().out == f"{tmp_path}/module.py:2: {sentence}\n"
    assert main([str(tmp_path / "nothing")]) == 0
