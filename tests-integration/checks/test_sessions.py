"""./check runs sessions, with a line for each and a sum; nox is a script here that knows some of them."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sessions import EVERY_CHECK, find_possible

CHECKS = Path(__file__).parents[2] / "checks"
NOX = """#!/bin/sh
[ "$1" != --list ] || {
    [ "$4" != lind ] || { echo 'nox > Error while collecting sessions.
nox > Sessions not found: lind' >&2; exit 3; }
    exit 0
}
report() {
    mkdir -p "$AMD_CHECK_REPORTS"
    echo "<testsuites><testsuite>$1</testsuite></testsuites>" > "$AMD_CHECK_REPORTS/1.xml"
}
seven='<testcase/><testcase/><testcase/><testcase/><testcase/><testcase/><testcase/>'
wrong='<testcase file="a/test_a.py" name="test_b"><failure/></testcase>'
skipped='<testcase file="a/test_a.py" name="test_fish"><skipped message="no fish"/></testcase>'
case $2 in
    lint) echo "All checks passed! $3 $4" ;;
    types) echo "one.py:1: error: wrong"; exit 1 ;;
    tests)
        echo "7 and 2"
        report "$seven$skipped$skipped" ;;
    integration) report "$wrong<testcase/><testcase/><testcase/><testcase/>"; exit 1 ;;
    slow)
        echo '.... [  3%]'; sleep 1.2; echo '.... [ 47%]'; sleep 1.2; echo '..s. [ 49%]'; sleep 1.2
        echo '.... [100%]'; sleep 1.2 ;;
    e2e) trap 'sleep 0.5; echo stopped; exit 130' INT; echo started; while :; do sleep 0.1; done ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    """Return a directory with what ./check runs, and with a nox of its own."""
    shutil.copytree(CHECKS, tmp_path / "checks", ignore=shutil.ignore_patterns("__pycache__"))
    programs = tmp_path / ".venv/bin"
    programs.mkdir(parents=True)
    (programs / "python").symlink_to(sys.executable)
    (programs / "nox").write_text(NOX)
    (programs / "nox").chmod(0o755)
    for name in ("a", "b", "c"):
        (tmp_path / "packages" / name).mkdir(parents=True)
        (tmp_path / "packages" / name / "pyproject.toml").touch()
    set_obstacle(tmp_path, "")
    return tmp_path


def set_obstacle(checkout, words):
    """Let the machine have an obstacle to engines, "" for none."""
    (checkout / ".ci").mkdir(exist_ok=True)
    (checkout / ".ci/obstacle").write_text(f"#!/bin/sh\necho '{words}'\n")
    (checkout / ".ci/obstacle").chmod(0o755)


def start(checkout, *words, **environment):
    return subprocess.Popen(
        [checkout / ".venv/bin/python", checkout / "checks/sessions.py", *words],
        env={"PATH": "/usr/bin:/bin", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def check(checkout, *words, **environment):
    """Run it and return its exit status and what it printed, with every time as `N s`."""
    process = start(checkout, *words, **environment)
    printed = process.communicate(timeout=60)[0]
    return process.returncode, re.sub(r"in \d+ s", "in N s", printed)


def test_each_session_has_a_line_and_all_have_a_sum(checkout):
    status, printed = check(checkout, "lint", "tests")

    assert status == 0
    assert printed == (
        "check: 2 sessions, about 6 minutes on two idle cores; logs in .nox/logs\n"
        "lint: passed in N s\n"
        "tests: 7 passed, 0 failed, 2 skipped in N s\n"
        "skipped 2: no fish\n"
        "check: 7 passed, 0 failed, 2 skipped\n"
    )
    assert (checkout / ".nox/logs/tests.log").read_text() == "7 and 2\n"
    assert (checkout / ".nox/logs/skipped").read_text() == "a/test_a.py::test_fish\n"


def test_a_session_shows_how_far_it_is(checkout):
    assert check(checkout, "slow")[1].splitlines()[1] == "slow: 40 % ... 100 % ... passed in N s"


def test_lines_behind_the_last_percentage_do_not_hide_it(checkout):
    nox = checkout / ".venv/bin/nox"
    script = "echo '.... [ 94%]'; printf '.... [100%%]'; sleep 1.2; echo 'Exception ignored'; sleep 1.2"
    nox.write_text(NOX.replace("slow)", f"docs) {script} ;;\n    slow)"))

    assert check(checkout, "docs")[1].splitlines()[1] == "docs: 100 % ... passed in N s"


def test_a_session_with_several_runs_of_pytest_says_in_which_it_is(checkout):
    nox = checkout / ".venv/bin/nox"
    script = "".join(
        f"echo '.... [ {percent}]'; sleep 1.2\n" for percent in (" 50%", "100%", " 42%", "100%", " 12%", "100%")
    )
    nox.write_text(NOX.replace("slow)", f"alone) {script} ;;\n    slow)"))

    assert check(checkout, "alone")[1].splitlines()[1] == (
        "alone: 1 of 3: 50 % ... 100 % ... 2 of 3: 40 % ... 100 % ... 3 of 3: 10 % ... 100 % ... passed in N s"
    )


def test_the_reports_of_an_earlier_run_do_not_count(checkout):
    reports = checkout / ".nox/logs/types.reports"
    reports.mkdir(parents=True)
    (reports / "9.xml").write_text("<testsuites><testcase/></testsuites>")

    assert "types: FAILED in N s\n" in check(checkout, "types")[1]


def test_files_left_outside_the_directory_are_named(checkout, tmp_path):
    left = tmp_path / f"pytest-of-{getpass.getuser()}"
    nox = checkout / ".venv/bin/nox"
    nox.write_text(NOX.replace("tests)", f"tests) mkdir {left};"))

    assert check(checkout, "tests", TMPDIR=f"{tmp_path}")[1].splitlines()[-3:] == [
        f"Left outside this directory: {left}",
        "skipped 2: no fish",
        "check: 7 passed, 0 failed, 2 skipped",
    ]


def test_failures_are_named_at_the_end_and_other_sessions_run_all_the_same(checkout):
    status, printed = check(checkout, "types", "integration", "tests")

    assert status == 1
    assert printed == (
        "check: 3 sessions, about 10 minutes on two idle cores; logs in .nox/logs\n"
        "types: FAILED in N s\n"
        "integration: 4 passed, 1 failed, 0 skipped in N s\n"
        "tests: 7 passed, 0 failed, 2 skipped in N s\n"
        "FAILED session types: .nox/logs/types.log says why\n"
        "FAILED a/test_a.py::test_b\n"
        "FAILED session integration: .nox/logs/integration.log says why\n"
        "skipped 2: no fish\n"
        "check: 11 passed, 2 failed, 2 skipped\n"
    )


def test_in_ci_the_log_of_a_session_that_failed_is_shown(checkout):
    _, printed = check(checkout, "types", CI="true")

    assert "one.py:1: error: wrong\n\nFAILED session types" in printed


def test_where_no_engine_can_start_its_session_is_left_out_and_that_is_reported(checkout):
    set_obstacle(checkout, "the moon is full")
    nox = checkout / ".venv/bin/nox"
    nox.write_text("#!/bin/sh\n")
    why = "the moon is full; they run with --privileged, or on a virtual machine"
    why = why if os.geteuid() == 0 else "only root starts engines: sudo ./check"

    status, printed = check(checkout)

    assert status == 0
    assert printed == (
        "check: 6 sessions, about 18 minutes on two idle cores; logs in .nox/logs\n"
        f"e2e: left out, because {why}\n"
        "lint: passed in N s\ntypes: passed in N s\ntests: passed in N s\nalone: passed in N s\n"
        "integration: passed in N s\ndocs: passed in N s\n"
        "check: 0 passed, 0 failed, 0 skipped; e2e did not run\n"
    )


def test_a_session_that_is_named_runs_though_there_is_an_obstacle(checkout):
    set_obstacle(checkout, "the moon is full")
    nox = checkout / ".venv/bin/nox"
    nox.write_text(NOX.replace("e2e)", "e2e) exit 1 ;;\n    other)"))

    status, printed = check(checkout, "e2e")

    assert status == 1
    assert "left out" not in printed
    assert "e2e: FAILED in N s\n" in printed


def test_every_session_runs_where_engines_can_start():
    assert find_possible("") == list(EVERY_CHECK)


def test_the_last_time_of_a_session_is_what_it_will_take(checkout):
    (checkout / ".nox/logs").mkdir(parents=True)
    (checkout / ".nox/logs/seconds.json").write_text('{"tests": 1195.2}')

    assert "about 20 minutes" in check(checkout, "tests", "lint")[1]
    assert json.loads((checkout / ".nox/logs/seconds.json").read_text()).keys() == {"tests", "lint"}
    assert "about a minute" in check(checkout, "tests", "lint")[1]


def test_how_long_a_session_takes_that_never_ran_is_not_known(checkout):
    assert check(checkout, "swarm", "lint")[1].startswith("check: 2 sessions; logs in .nox/logs\n")


def test_a_session_that_does_not_exist_is_refused_before_any_runs(checkout):
    assert check(checkout, "lind", "tests") == (
        2,
        "check: Sessions not found: lind; './check --help' shows how to use it\n",
    )
    assert not (checkout / ".nox").exists()


def test_words_behind_two_dashes_go_to_the_tool(checkout):
    check(checkout, "lint", "--", "--fix")

    assert (checkout / ".nox/logs/lint.log").read_text() == "All checks passed! -- --fix\n"


def test_an_interrupted_session_stops_what_it_started_and_no_other_begins(checkout):
    process = start(checkout, "e2e", "tests")
    log = checkout / ".nox/logs/e2e.log"
    while not (log.exists() and "started" in log.read_text()):
        time.sleep(0.01)

    # As the terminal does: to every process in the foreground.
    os.killpg(process.pid, signal.SIGINT)

    printed = process.communicate(timeout=60)[0]
    assert (process.returncode, len(printed.splitlines())) == (128 + signal.SIGINT, 2)
    assert log.read_text() == "started\nstopped\n"
