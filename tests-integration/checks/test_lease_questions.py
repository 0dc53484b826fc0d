"""The lint session counts the conditions that ask a lease what it is."""

from __future__ import annotations

import pytest

from lease_questions import main

IMPORT = "from amd_gpu_tracker.book.lease import BY_API, ENDING, Lease\n"


def check(tmp_path, capsys, source, *, name="module.py", most=1, words=()):
    (tmp_path / name).write_text(source)
    page = tmp_path / "scope.md"
    page.write_text(f"There are at most {most} questions.\n")
    code = main([*words, str(tmp_path)], page)
    return code, capsys.readouterr().out.replace(f"{tmp_path}/", "").splitlines()


@pytest.mark.parametrize(
    "source",
    [
        "if lease.until: pass",
        "if BY_API in lease.ways: pass",
        "while 0 < lease.limit: pass",
        "found = [each for each in leases if each.is_spare]",
        "found = kind_of(lease).end or lease.until",
        "is_over = not lease.until",
        "if each.kind == JOB: pass",
        "if lease.container_id.endswith(ENDING): pass",
    ],
)
def test_a_condition_about_a_lease_is_a_question(tmp_path, capsys, source):
    assert check(tmp_path, capsys, IMPORT + source) == (0, ["1 questions of 1: what is this lease?"])


@pytest.mark.parametrize(
    "source",
    [
        "if kind_of(lease).is_over(now): pass",
        "print(lease.until)",
        "if read(lease.bundle): pass",
        "if claim.reservation or place.demand.is_spare: pass",
        "if BY_API in claim.ways: pass",
        "if request.name.endswith(ENDING): pass",
    ],
)
def test_answers_of_a_class_and_questions_to_other_values_are_not_counted(tmp_path, capsys, source):
    assert check(tmp_path, capsys, IMPORT + source) == (0, ["0 questions of 1: what is this lease?"])


def test_a_module_that_knows_no_lease_asks_none(tmp_path, capsys):
    source = "from amd_gpu_tracker.claims.release import Released, release\nif each.until: pass"

    assert check(tmp_path, capsys, source) == (0, ["0 questions of 1: what is this lease?"])


@pytest.mark.parametrize("name", ["lease.py", "kinds.py"])
def test_the_modules_that_answer_are_not_counted(tmp_path, capsys, name):
    assert check(tmp_path, capsys, IMPORT + "if lease.until: pass", name=name)[0] == 0


def test_more_questions_than_the_page_allows_fail(tmp_path, capsys):
    source = IMPORT + "if lease.until: pass\nif BY_API in lease.ways and lease.limit: pass"

    assert check(tmp_path, capsys, source, words=["--list"]) == (
        1,
        [
            "module.py:2: lease.until",
            "module.py:3: BY_API in lease.ways",
            "module.py:3: lease.limit",
            "3 questions of 1: what is this lease?",
            "2 too many: give the classes of book/kinds.py a method, and ask that ('--list')",
        ],
    )
