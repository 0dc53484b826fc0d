"""Settings of every test run."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

# Time is measured in benchmarks and never decides a test: a busy machine is not a bug.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")
PROCESS = os.getpid()


def pytest_sessionstart() -> None:
    """A terminal that is closed stops the engines that tests have started, as Ctrl-C does."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    # What a shell without job control starts in the background ignores Ctrl-C, and so would the programs of tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Behind sudo, reservations of the tests would be those of the person who typed it.
    os.environ.pop("SUDO_UID", None)


def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """A process that a test has forked ends where it fails: it must not go on with the tests that follow."""
    if os.getpid() != PROCESS:
        print(call.excinfo and call.excinfo.getrepr(), file=sys.stderr, flush=True)
        os._exit(1)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A run whose tests were all skipped has tested nothing, and ends as one that found no test."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter and not session.config.option.collectonly:
        ran = ("passed", "xfailed", "xpassed")
        session.exitstatus = exitstatus if any(map(reporter.getreports, ran)) else pytest.ExitCode.NO_TESTS_COLLECTED
