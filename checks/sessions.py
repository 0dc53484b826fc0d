"""Run nox sessions one after another, with a line for each and a summary. This is what ./check does."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from outcome import Outcome, format_reasons, format_skips, format_totals, read_outcome

# The default sessions of ./check.
EVERY_CHECK = ("lint", "types", "tests", "alone", "integration", "docs", "e2e")
WITH_ENGINES = ("e2e",)
# Seconds that they took on two idle cores, without what they install. The time of a session's last run replaces these.
SECONDS = {
    "lint": 10,
    "types": 40,
    "tests": 340,
    "alone": 380,
    "integration": 200,
    "docs": 85,
    "e2e": 870,
    "privileged": 120,
    "fresh-container": 1200,
}
# Tests and the engines that they start leave these outside this directory, whatever their options.
OUTSIDE = (
    *(f"{tempfile.gettempdir()}/pytest-of-{getpass.getuser()}", "~/.cache/amd-container-toolkit"),
    "/var/cache/amd-container-toolkit-tests",
    *("/etc/docker/key.json", "/opt/containerd", "/etc/cni/net.d/cni.lock", "/var/lib/containers"),
    *("/var/lib/containerd", "/var/cache/containers", "/var/tmp/intermediate-mountpoint-0.0"),  # noqa: S108
)
CHECKOUT = Path(__file__).resolve().parents[1]
LOGS = CHECKOUT / ".nox/logs"
TIMES = LOGS / "seconds.json"
# The names of all skipped tests, a line each; `pytest @FILE` runs them.
SKIPS = LOGS / "skipped"
# These run pytest once for each distribution.
BY_DISTRIBUTION = ("tests", "alone")
NOX = f"{Path(sys.executable).parent}/nox"
# The directory for the reports of a session's pytest runs; noxfile.py reads this variable.
REPORTS_VARIABLE = "AMD_CHECK_REPORTS"
# The progress that pytest prints: `.......s.... [ 42%]`, with what a process of a test prints behind it.
PROGRESS = re.compile(rb"^[^\[\n]*[.sFExX] +\[ *(\d+)%\]", re.MULTILINE)
POLL_SECONDS = 1.0
FIVE_MINUTES = 300.0
USAGE_ERROR = 2
INTERRUPTED = 130


def main(args: list[str]) -> int:
    """Run the sessions and print their results; return 0 if nothing failed."""
    end = args.index("--") if "--" in args else len(args)
    obstacle = find_obstacle()
    names, passed_on = args[:end] or find_possible(obstacle), args[end:]
    unknown = find_unknown(names)
    if unknown:
        print(f"check: {unknown}; './check --help' shows how to use it", file=sys.stderr)
        return USAGE_ERROR
    LOGS.mkdir(parents=True, exist_ok=True)
    print(f"check: {format_expected(names, {**SECONDS, **read_times()})}; logs in .nox/logs", flush=True)
    left_out = [] if args[:end] else [name for name in EVERY_CHECK if name not in names]
    if left_out:
        print(f"{', '.join(left_out)}: left out, because {obstacle}", flush=True)
    return run_all(names, passed_on, left_out)


def find_obstacle() -> str:
    """Return why no engine can start containers here, "" if one can."""
    if os.geteuid():
        return "only root starts engines: sudo ./check"
    answer = subprocess.run([CHECKOUT / ".ci/obstacle"], capture_output=True, text=True, check=False).stdout.strip()
    return f"{answer}; they run with --privileged, or on a virtual machine" if answer else ""


def find_possible(obstacle: str) -> list[str]:
    """Return the default sessions. Where there is an obstacle to engines, omit those that start engines."""
    return [name for name in EVERY_CHECK if not obstacle or name not in WITH_ENGINES]


def find_unknown(names: list[str]) -> str:
    """Return nox's message if it does not know a session, else ""."""
    command = [NOX, "--list", "--json", "--session", *names]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    return listed.stderr.strip().rpartition("nox > ")[2] if listed.returncode else ""


def format_expected(names: list[str], seconds: dict[str, float]) -> str:
    """Describe how long these sessions take together, if the time of each is known."""
    counted = f"{len(names)} session{'s' if len(names) > 1 else ''}"
    if not set(names) <= seconds.keys():
        return counted
    minutes = round(sum(seconds[name] for name in names) / 60)
    return f"{counted}, about {f'{minutes} minutes' if minutes > 1 else 'a minute'} on two idle cores"


def run_all(names: list[str], passed_on: list[str], left_out: list[str]) -> int:
    """Run sessions until all have ended or one is interrupted, and print a summary; return 0 if all succeeded."""
    # Ctrl-C also reaches the session. Wait for its end, because it has engines to stop.
    signal.signal(signal.SIGINT, lambda *_: None)
    before = find_outside()
    outcomes: dict[str, Outcome] = {}
    for name in names:
        status, outcomes[name] = run_and_report(name, passed_on)
        if status == INTERRUPTED:
            return INTERRUPTED
    print(format_failures(outcomes), end="")
    left = sorted(find_outside() - before)
    if left:
        print(f"Left outside this directory: {' '.join(left)}")
    print(format_reasons(list(outcomes.values())), end="")
    SKIPS.write_text(format_skips(list(outcomes.values())), encoding="utf-8")
    missing = f"; {', '.join(left_out)} did not run" if left_out else ""
    print(f"check: {format_totals(list(outcomes.values()))}{missing}")
    return 0 if all(outcome.succeeded for outcome in outcomes.values()) else 1


def find_outside() -> set[str]:
    """Return the existing paths of OUTSIDE."""
    return {path for path in map(os.path.expanduser, OUTSIDE) if os.path.exists(path)}


def run_and_report(name: str, passed_on: list[str]) -> tuple[int, Outcome]:
    """Run a session, and print its result and duration on a line; return its exit status and outcome."""
    print(f"{name}: ", end="", flush=True)
    began = time.monotonic()
    status = run(name, passed_on)
    seconds = time.monotonic() - began
    outcome = read_outcome(reports_of(name), succeeded=status == 0)
    print(f"{outcome} in {seconds:.0f} s", flush=True)
    if status == 0:
        TIMES.write_text(json.dumps({**read_times(), name: round(seconds, 1)}), encoding="utf-8")
    return status, outcome


def run(name: str, passed_on: list[str]) -> int:
    """Run a session to its end, with its output in its log; return its exit status."""
    shutil.rmtree(reports_of(name), ignore_errors=True)
    environment = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}
    environment[REPORTS_VARIABLE] = str(reports_of(name))
    with log_of(name).open("wb") as log:
        command = [NOX, "--session", name, *passed_on]
        process = subprocess.Popen(
            command, cwd=CHECKOUT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        return follow(process, log_of(name), count_runs(name, passed_on))


def count_runs(name: str, passed_on: list[str]) -> int:
    """Return how often a session runs pytest."""
    runs = len(list((CHECKOUT / "packages").glob("*/pyproject.toml")))
    return runs if name == "alone" or (name in BY_DISTRIBUTION and not passed_on) else 1


def follow(process: subprocess.Popen[bytes], log: Path, runs: int) -> int:
    """Print the progress of a session until it ends, each ten percent or five minutes; return its exit status."""
    shown, run, began = "", 0, time.monotonic()
    while True:
        try:
            return process.wait(POLL_SECONDS)
        except subprocess.TimeoutExpired:
            percents = [int(each) for each in PROGRESS.findall(log.read_bytes())]
            minutes = int((time.monotonic() - began) // FIVE_MINUTES * 5)
            step = f"{percents[-1] // 10 * 10} % ... " if percents else f"{minutes} min ... "
            if step != shown and not step.startswith("0 "):
                # Each run before this one has printed 100 %.
                before, run = run, 1 + percents[:-1].count(100)
                print(f"{run} of {runs}: {step}" if run != before and runs > 1 else step, end="", flush=True)
            shown = step


def format_failures(outcomes: dict[str, Outcome]) -> str:
    """Name each failed test, and the log of each failed session. In CI, where logs are lost, print the log."""
    lines = []
    for name, outcome in outcomes.items():
        lines += [f"FAILED {test}" for test in outcome.failures]
        if not outcome.succeeded:
            if "CI" in os.environ:
                lines.append(read_log(name))
            lines.append(f"FAILED session {name}: {log_of(name).relative_to(CHECKOUT)} says why")
    return "".join(f"{line}\n" for line in lines)


def log_of(name: str) -> Path:
    """Return the path of a session's log."""
    return LOGS / f"{name}.log"


def reports_of(name: str) -> Path:
    """Return the directory of the reports of a session's pytest runs."""
    return LOGS / f"{name}.reports"


def read_log(name: str) -> str:
    """Return the output of a session."""
    return log_of(name).read_text(encoding="utf-8", errors="replace")


def read_times() -> dict[str, float]:
    """Return the duration of each session's last run, in seconds."""
    try:
        times: dict[str, float] = json.loads(TIMES.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return times


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
