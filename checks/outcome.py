"""Read the outcome of a nox session from the reports of its pytest runs."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree


class Outcome(NamedTuple):
    """How a session ended, its tests by number and result, and the names of those that failed or were skipped."""

    succeeded: bool
    passed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    skips: tuple[str, ...] = ()

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
        reasons=tuple(map(_reason_of, skipped)),
        skips=tuple(map(_name_of, skipped)),
    )


def format_reasons(outcomes: list[Outcome]) -> str:
    """List the reasons for which tests were skipped, each with their number, the most frequent first."""
    counted = Counter(reason for outcome in outcomes for reason in outcome.reasons)
    ordered = sorted(counted.items(), key=lambda each: (-each[1], each[0]))
    return "".join(f"skipped {number}: {reason}\n" for reason, number in ordered)


def format_skips(outcomes: list[Outcome]) -> str:
    """List the names of skipped tests, each once: the sessions `tests` and `alone` run the same ones."""
    return "".join(f"{name}\n" for name in sorted({name for outcome in outcomes for name in outcome.skips}))


def format_totals(outcomes: list[Outcome]) -> str:
    """Sum up sessions. One that failed without a failed test counts as one failure."""
    failed = sum(len(outcome.failures) or (0 if outcome.succeeded else 1) for outcome in outcomes)
    return _format_counts(sum(each.passed for each in outcomes), failed, sum(each.skipped for each in outcomes))


def _has(case: ElementTree.Element, *endings: str) -> bool:
    return any(case.find(ending) is not None for ending in endings)


def _name_of(case: ElementTree.Element) -> str:
    """Return the name of a test as pytest takes it: its file, its class if it has one, and its function."""
    file = case.get("file", "")
    module = file.removesuffix(".py").replace("/", ".")
    test_class = case.get("classname", "").removeprefix(module).removeprefix(".")
    return "::".join(filter(None, (file, test_class, case.get("name"))))


def _reason_of(case: ElementTree.Element) -> str:
    skipped = case.find("skipped")
    words = skipped.get("message", "") if skipped is not None else ""
    return " ".join(words.split()) or "no reason is given"


def _format_counts(passed: int, failed: int, skipped: int) -> str:
    return f"{passed} passed, {failed} failed, {skipped} skipped"
