"""Report a fixture that fails or times out as one failure: other tests with it are skipped and name the first test."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

FIRST_BY_ERROR = pytest.StashKey[dict[int, tuple[BaseException, str]]]()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Skip a test if pytest raises an error again that a fixture raised for another test."""
    report = (yield).get_result()
    if not (report.when == "setup" and report.failed and call.excinfo):
        return
    error = call.excinfo.value
    # Keeping the error keeps its id unique.
    _, first = item.session.stash.setdefault(FIRST_BY_ERROR, {}).setdefault(id(error), (error, item.nodeid))
    if first != item.nodeid:
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], f"Skipped: a fixture has failed in {first}")
