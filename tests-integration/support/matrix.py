"""Tables of docs/maintain with the number of passed tests in each system, and the tests that did not pass."""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING

from support.engines_page import EngineAnswers

if TYPE_CHECKING:
    import pytest

    # The title of a column, and the version below it.
    System = tuple[str, str]


# The row that counts tests without a row of their own.
PASSED = "tests that passed"


class Matrix:
    """Collects results. A test that runs several times in a system has passed if all runs have."""

    def __init__(self, session: str, systems: Mapping[str, System], other: System | None = None) -> None:
        """Prepare a table for a `session` of nox, with the systems by name.

        A test belongs to the system that one of its parameters or else its file names, or else to `other`.
        """
        self._session = session
        self._systems = systems
        self._other = other
        self._results: dict[tuple[str, System], str] = {}

    def watch(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Implement the hook `pytest_runtest_makereport`."""
        report = yield
        system = self._system_of(item)
        if system:
            self._note(item, report, system)
        return report

    def write_if_asked(self, variable: str) -> None:
        """Write the table into the page that an environment variable names."""
        if page := os.environ.get(variable):
            self._write_into(page)

    def _note(self, item: pytest.Item, report: pytest.TestReport, system: System) -> None:
        question = getattr(item, "originalname", item.name).removeprefix("test_").replace("_", " ")
        if not report.passed or report.when == "call":
            result = "yes" if report.passed else "not asked" if report.skipped else "**no**"
            known = self._results.get((question, system), "yes")
            self._results[question, system] = result if known == "yes" else known

    def _write_into(self, page: str) -> None:
        answers = EngineAnswers(self._session)
        for system, version in dict.fromkeys((*self._systems.values(), *([self._other] if self._other else []))):
            results = {question: result for (question, asked), result in self._results.items() if asked[0] == system}
            if results:
                answers.note(system, version, PASSED, str(list(results.values()).count("yes")))
            for question, result in results.items():
                if result != "yes":
                    answers.note(system, version, question, result)
            # A run with only some of the systems keeps the columns of the others.
            if not results:
                answers.keep(page, system)
        answers.write_into(page)

    def _system_of(self, item: pytest.Item) -> System | None:
        parameters = getattr(item, "callspec", None)
        names = [*(parameters.id.split("-") if parameters else []), item.path.name]
        return next((self._systems[name] for name in names if name in self._systems), self._other)
