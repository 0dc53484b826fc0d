"""Settings of every test run."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings

from support.privileges import find_obstacle

# Only benchmarks judge time. A test must not fail because the machine is busy.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")
PROCESS = os.getpid()


def pytest_sessionstart() -> None:
    """If the terminal closes, stop the engines that tests have started, as Ctrl-C does."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    # A shell without job control makes its background processes ignore Ctrl-C, and so would the tests' programs.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Under sudo, reservations of the tests would belong to the user who called it.
    os.environ.pop("SUDO_UID", None)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test that needs a privilege which root lacks here. On the machine of .ci/run, root has all: it fails."""
    for privilege in (name for mark in item.iter_markers("needs") for name in mark.args):
        if obstacle := find_obstacle(privilege):
            (pytest.fail if "AMD_GATE" in os.environ else pytest.skip)(obstacle)


def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """If a test fails in a process that it forked, end the process, so that it does not run the following tests."""
    if os.getpid() != PROCESS:
        print(call.excinfo and call.excinfo.getrepr(), file=sys.stderr, flush=True)
        os._exit(1)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """If all tests were skipped, end like a run that found no tests, because nothing was tested."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == pytest.ExitCode.OK and reporter and not session.config.option.collectonly:
        ran = ("passed", "xfailed", "xpassed")
        session.exitstatus = exitstatus if any(map(reporter.getreports, ran)) else pytest.ExitCode.NO_TESTS_COLLECTED
