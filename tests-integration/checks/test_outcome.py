"""./check reads from the reports of a session what its tests did."""

from __future__ import annotations

import subprocess
import sys

import pytest

from outcome import Outcome, format_reasons, format_skips, format_totals, read_outcome

TESTS = """
import pytest
def test_passes(): pass
@pytest.mark.parametrize("words", ["a b"])
def test_words(words): assert words == "5 passed in 4.0s"
def test_is_skipped(): pytest.skip("there is no python3.10")
class TestGroup:
    def test_inside(self, no_such_fixture): pass
    def test_is_skipped(self): pytest.skip("there is no fish")
"""


@pytest.fixture
def session(tmp_path):
    """Return a function that runs pytest on a module as a session does, and returns the outcome of all runs."""

    def run(number, source, *, succeeded):
        (tmp_path / "test_a.py").write_text(source)
        report = f"--junitxml={tmp_path}/reports/{number}.xml"
        words = [sys.executable, "-m", "pytest", "-o", "junit_family=xunit1", report, "test_a.py"]
        subprocess.run(words, cwd=tmp_path, capture_output=True, check=False)
        return read_outcome(tmp_path / "reports", succeeded=succeeded)

    return run


def test_every_run_of_pytest_in_a_session_counts(session):
    session(1, "def test_a(): pass", succeeded=True)

    assert session(2, TESTS, succeeded=False) == Outcome(
        succeeded=False,
        passed=2,
        skipped=2,
        failures=("test_a.py::test_words[a b]", "test_a.py::TestGroup::test_inside"),
        reasons=("there is no python3.10", "there is no fish"),
        skips=("test_a.py::test_is_skipped", "test_a.py::TestGroup::test_is_skipped"),
    )


def test_a_module_that_cannot_be_imported_is_a_failure(session):
    assert session(1, "import no_such_module", succeeded=False) == Outcome(
        succeeded=False, failures=("test_a.py::test_a",)
    )


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome(succeeded=True), "passed"),
        (Outcome(succeeded=False), "FAILED"),
        (Outcome(succeeded=True, passed=5), "5 passed, 0 failed, 0 skipped"),
        (Outcome(succeeded=False, passed=5, failures=("a",)), "5 passed, 1 failed, 0 skipped"),
        (Outcome(succeeded=True, skipped=2), "0 passed, 0 failed, 2 skipped"),
        (Outcome(succeeded=False, passed=5), "5 passed, 0 failed, 0 skipped, FAILED"),
    ],
)
def test_a_session_is_summed_up_in_one_line(outcome, said):
    assert str(outcome) == said


def test_a_session_that_failed_without_a_failed_test_counts_as_a_failure():
    passed = Outcome(succeeded=True, passed=5, skipped=1)
    failed = Outcome(succeeded=False, passed=6, failures=("a", "b"))

    assert format_totals([passed, failed, Outcome(succeeded=True)]) == "11 passed, 2 failed, 1 skipped"
    assert format_totals([passed, Outcome(succeeded=False)]) == "5 passed, 1 failed, 1 skipped"


def test_each_reason_of_skipped_tests_is_listed_once_with_its_count():
    first = Outcome(succeeded=True, skipped=2, reasons=("there is no fish", "only root may"))
    second = Outcome(succeeded=True, skipped=2, reasons=("only root may", "it is dark"))

    assert format_reasons([first, second]) == (
        "skipped 2: only root may\nskipped 1: it is dark\nskipped 1: there is no fish\n"
    )
    assert format_reasons([Outcome(succeeded=True, passed=1)]) == ""


def test_a_test_that_two_sessions_skip_is_listed_once():
    first = Outcome(succeeded=True, skipped=2, skips=("b.py::test_b", "a.py::test_a"))
    second = Outcome(succeeded=True, skipped=1, skips=("b.py::test_b",))

    assert format_skips([first, second]) == "a.py::test_a\nb.py::test_b\n"
