"""The table of docs/reference/packages.md: what was seen in which system, a row for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.engines_page import EngineAnswers

if TYPE_CHECKING:
    import pytest

# By the parameter of a test that names the system, or else by the file of the test.
SYSTEMS = {
    "bookworm": ("Debian 12", "apt, Python 3.11"),
    "trixie": ("Debian 13", "apt, Python 3.13"),
    "python3": ("rpm", "dnf, `python3`"),
    "el9": ("rpm for EL 9", "dnf, `python3.12`"),
    "test_pip.py": ("pip", "virtual environments"),
}
BUILT = ("as built", "debs, rpms")


class Matrix:
    """Results as they come in; a test that runs several times in a system has passed where all of them have."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, tuple[str, str]], str] = {}

    def note(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """Keep the result of a part of a test."""
        question = getattr(item, "originalname", item.name).removeprefix("test_").replace("_", " ")
        system = _system_of(item)
        if not report.passed or report.when == "call":
            result = "yes" if report.passed else "not asked" if report.skipped else "**no**"
            known = self._results.get((question, system), "yes")
            self._results[question, system] = result if known == "yes" else known

    def write_into(self, page: str) -> None:
        """Put the table into its page."""
        answers = EngineAnswers("install")
        for system, version in (*SYSTEMS.values(), BUILT):
            for (question, asked), result in self._results.items():
                if asked == (system, version):
                    answers.note(system, version, question, result)
        answers.write_into(page)


def _system_of(item: pytest.Item) -> tuple[str, str]:
    parameters = getattr(item, "callspec", None)
    names = [*(parameters.id.split("-") if parameters else []), item.path.name]
    return next((SYSTEMS[name] for name in names if name in SYSTEMS), BUILT)
