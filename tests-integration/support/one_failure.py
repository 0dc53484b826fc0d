"""A fixture that fails, or whose time is over, is one failure: tests that share it are skipped and name the first."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

FIRST_BY_ERROR = pytest.StashKey[dict[int, tuple[BaseException, str]]]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Skip a test for which pytest raises again what a fixture of another has raised."""
    report = (yield).get_result()
    if not (report.when == "setup" and report.failed and call.excinfo):
        return
    error = call.excinfo.value
    # The error is kept, so that its id is nobody else's.
    _, first = item.session.stash.setdefault(FIRST_BY_ERROR, {}).setdefault(id(error), (error, item.nodeid))
    if first != item.nodeid:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], f"Skipped: a fixture has failed in {first}")
