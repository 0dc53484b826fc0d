"""Read the outcome of a nox session from the reports of its pytest runs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Outcome(NamedTuple):
    """How a session ended, the number of its tests by result, and the names of failed tests."""

    succeeded: bool
    passed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Format the outcome like pytest, if any tests ran."""
        ended = "passed" if self.succeeded else "FAILED"
        if not (self.passed or self.skipped or self.failures):
            return ended
        counted = _format_counts(self.passed, len(self.failures), self.skipped)
        return counted if self.succeeded or self.failures else f"{counted}, {ended}"


def read_outcome(reports: Path, *, succeeded: bool) -> Outcome:
    """Return the outcome of a session from its JUnit XML reports in a directory."""
    trees = [ElementTree.parse(report) for report in sorted(reports.glob("*.xml"))]  # noqa: S314  pytest wrote them
    cases = [case for tree in trees for case in tree.iter("testcase")]
    failed = [case for case in cases if _has(case, "failure", "error")]
    skipped = [case for case in cases if _has(case, "skipped")]
    return Outcome(
        succeeded=succeeded,
        passed=len(cases) - len(failed) - len(skipped),
        skipped=len(skipped),
        failures=tuple(map(_name_of, failed)),
    )


def format_totals(outcomes: list[Outcome]) -> str:
    """Sum up sessions. One that failed without a failed test counts as one failure."""
    failed = sum(len(outcome.failures) or (0 if outcome.succeeded else 1) for outcome in outcomes)
    return _format_counts(sum(each.passed for each in outcomes), failed, sum(each.skipped for each in outcomes))


def _has(case: ElementTree.Element, *endings: str) -> bool:
    return any(case.find(ending) is not None for ending in endings)


def _name_of(case: ElementTree.Element) -> str:
    return f"{case.get('file')}::{case.get('name')}"


def _format_counts(passed: int, failed: int, skipped: int) -> str:
    return f"{passed} passed, {failed} failed, {skipped} skipped"
