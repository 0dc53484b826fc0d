"""Every known cause has a check, and every check of a cause has a test that is there."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

from amd_ctk.doctor.run import check_names

HERE = Path(__file__).parent
TABLE = runpy.run_path(str(HERE / "causes.py"))
CAUSES, WITHOUT_CHECK = TABLE["CAUSES"], TABLE["WITHOUT_CHECK"]


def test_each_of_41_causes_has_a_check_or_a_reason():
    assert sorted([*CAUSES, *WITHOUT_CHECK]) == list(range(1, 42))
    assert len(WITHOUT_CHECK) <= 4
    assert {check for check, *_ in [*CAUSES.values(), *WITHOUT_CHECK.values()] if check} <= {*check_names()}


@pytest.mark.parametrize("number", CAUSES)
def test_the_test_that_calls_a_cause_bad_exists(number):
    check, file, test = CAUSES[number]
    require_test(check, file, test, "FAULTS")


@pytest.mark.parametrize("number", [number for number, (check, _) in WITHOUT_CHECK.items() if check])
def test_the_test_that_notes_what_no_host_shows_exists(number):
    check, test = WITHOUT_CHECK[number]
    require_test(check, "test_inside_causes.py", test, "NOTES")


def require_test(check, file, test, table_name):
    name, _, parameter = test.rstrip("]").partition("[")
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    tables = {node.targets[0].id: node.value for node in tree.body if isinstance(node, ast.Assign)}
    table = tables.get(table_name)

    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    if parameter:
        assert parameter == check
        assert parameter in {key.value for key in table.keys}
