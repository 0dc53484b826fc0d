"""What became of a session, read from what it printed."""

from __future__ import annotations

import re
from typing import NamedTuple

# "===== 3 failed, 1697 passed, 2 errors in 61.05s (0:01:01) ====="; a session may run pytest several times.
SUMMARY = re.compile(r"^=*\s?(\d+ [a-z]+(?:, \d+ [a-z]+)*) in [\d.]+s(?: \([\d:]+\))?\s?=*$", re.MULTILINE)
# "FAILED packages/x/test_y.py::test_z[1] - AssertionError"; lines of a test's own log name no file of tests.
FAILURE = re.compile(r"^(?:FAILED|ERROR) (\S+\.py\b.*?)(?: - .*)?$", re.MULTILINE)
FAILED = ("failed", "error", "errors")


class Outcome(NamedTuple):
    """How a session ended, how many of its tests did what, and the names of those that failed."""

    succeeded: bool
    ran_tests: bool = False
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Say it as pytest does, where pytest ran."""
        ended = "passed" if self.succeeded else "FAILED"
        if not self.ran_tests:
            return ended
        counted = _say_counts(self.passed, self.failed, self.skipped)
        return counted if self.succeeded or self.failed else f"{counted}, {ended}"


def parse_outcome(log: str, *, succeeded: bool) -> Outcome:
    """Return the outcome of a session from its log and whether it succeeded."""
    summaries = SUMMARY.findall(log)
    counts = [(int(number), word) for summary in summaries for number, _, word in _words(summary)]

    def total(*words: str) -> int:
        return sum(number for number, word in counts if word in words)

    return Outcome(
        succeeded=succeeded,
        ran_tests=bool(summaries),
        passed=total("passed"),
        failed=total(*FAILED),
        skipped=total("skipped"),
        failures=tuple(FAILURE.findall(log)),
    )


def say_sum(outcomes: list[Outcome]) -> str:
    """Add sessions up; one that failed although none of its tests did counts as a failure itself."""
    failed = sum(outcome.failed or (0 if outcome.succeeded else 1) for outcome in outcomes)
    return _say_counts(sum(each.passed for each in outcomes), failed, sum(each.skipped for each in outcomes))


def _words(summary: str) -> list[tuple[str, str, str]]:
    return [part.partition(" ") for part in summary.split(", ")]


def _say_counts(passed: int, failed: int, skipped: int) -> str:
    return f"{passed} passed, {failed} failed, {skipped} skipped"
