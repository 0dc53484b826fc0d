"""./check reads from a session's log what its tests did."""

from __future__ import annotations

import pytest

from outcome import Outcome, parse_outcome, say_sum

# What pytest 9 printed, shortened.
LOG = """\
nox > Running session alone(amd-device-spec)
nox > pytest --numprocesses=auto packages/amd-device-spec/tests
.....................................                                    [100%]
============================== 330 passed in 5.31s ==============================
nox > Session alone(amd-device-spec) was successful in 9 seconds.
nox > Running session alone(amd-ctk)
FAIL: no line of a summary
ERROR    root:report.py:12 nor is this
=================================== FAILURES ===================================
=========================== short test summary info ============================
SKIPPED [1] packages/amd-ctk/tests/test_a.py:3: there is no python3.10
FAILED packages/amd-ctk/tests/test_a.py::test_words[a b] - AssertionError: 3 passed in 4.0s
ERROR packages/amd-ctk/tests/test_b.py
= 1 failed, 1697 passed, 3 skipped, 2 deselected, 1 error in 61.05s (0:01:01) ==
nox > Command pytest --numprocesses=auto failed with exit code 1
"""


def test_every_run_of_pytest_in_a_session_counts():
    assert parse_outcome(LOG, succeeded=False) == Outcome(
        succeeded=False,
        ran_tests=True,
        passed=2027,
        failed=2,
        skipped=3,
        failures=("packages/amd-ctk/tests/test_a.py::test_words[a b]", "packages/amd-ctk/tests/test_b.py"),
    )


@pytest.mark.parametrize(
    ("log", "succeeded", "said"),
    [
        ("All checks passed!\n", True, "passed"),
        ("Found 1 error.\n", False, "FAILED"),
        ("== 5 passed in 0.10s ==\n", True, "5 passed, 0 failed, 0 skipped"),
        ("= 1 failed, 5 passed in 0.10s =\n", False, "5 passed, 1 failed, 0 skipped"),
        ("5 passed, 2 skipped in 100.10s (0:01:40)\n", True, "5 passed, 0 failed, 2 skipped"),
        ("== 2 skipped in 0.10s ==\n", True, "0 passed, 0 failed, 2 skipped"),
        ("== 5 passed in 0.10s ==\n", False, "5 passed, 0 failed, 0 skipped, FAILED"),
        ("== no tests ran in 0.01s ==\n", False, "FAILED"),
    ],
)
def test_a_session_is_summed_up_in_one_line(log, succeeded, said):
    assert str(parse_outcome(log, succeeded=succeeded)) == said


def test_a_session_that_failed_without_a_failed_test_counts_as_a_failure():
    passed = Outcome(succeeded=True, ran_tests=True, passed=5, skipped=1)
    failed = Outcome(succeeded=False, ran_tests=True, passed=6, failed=2)

    assert say_sum([passed, failed, Outcome(succeeded=True)]) == "11 passed, 2 failed, 1 skipped"
    assert say_sum([passed, Outcome(succeeded=False)]) == "5 passed, 1 failed, 1 skipped"
