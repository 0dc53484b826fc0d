"""Time whole processes in pairs: a subject and, right before it, a program to compare with.

Absolute times are noise on a shared machine; the median of ratios within pairs is not.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Trace:
    """The system calls of a run, the compiled modules that it opens, and the programs that it executes."""

    calls: int
    modules: int
    programs: list[str]


@dataclass(frozen=True)
class Program:
    """A command line with its environment, and preparations for each run."""

    words: Sequence[str]
    environment: Mapping[str, str]
    prepare: Callable[[], object] = bool
    standard_input: str = os.devnull

    def run(self) -> float:
        """Return the seconds of one run; a run that fails ends the benchmark."""
        self.prepare()
        actions = [(os.POSIX_SPAWN_OPEN, 0, self.standard_input, os.O_RDONLY, 0), *QUIET]
        begin = time.perf_counter()
        child = os.posix_spawn(self.words[0], self.words, self.environment, file_actions=actions)
        _, status = os.waitpid(child, 0)
        elapsed = time.perf_counter() - begin
        if status:
            raise SystemExit(f"{' '.join(self.words)} failed with status {status}")
        return elapsed

    def peak_memory(self) -> float:
        """Return the largest resident size of one run in MB.

        A process inherits the peak of its parent, so a small process starts it.
        """
        self.prepare()
        answer = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PEAK_OF_A_CHILD, *self.words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return int(answer.stdout) / 1024

    def trace(self) -> Trace:
        """Return the system calls of one run."""
        self.prepare()
        trace = subprocess.run(
            ["strace", "-f", "-qq", "-o", "/dev/stdout", *self.words],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        calls = [line.split(maxsplit=1)[1] for line in trace.stdout.splitlines() if "(" in line]
        executed = [call.split('"')[1].rpartition("/")[2] for call in calls if call.startswith("execve(")]
        opened = sum(".pyc" in call.partition(",")[2] and " = -1 " not in call for call in calls)
        # The file with all modules is opened for each of them, after twice for its table.
        joined = sum('/all.modules"' in call and " = -1 " not in call for call in calls)
        return Trace(len(calls), opened + max(joined - 2, 0), executed)


PEAK_OF_A_CHILD = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
print(os.wait4(child, 0)[2].ru_maxrss)
"""
QUIET = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]


@dataclass(frozen=True)
class Comparison:
    """Medians of paired runs: `milliseconds` of the subject, `over` the other program in ms, and their `ratio`."""

    milliseconds: float
    over: float
    ratio: float


def compare(subject: Program, other: Program, rounds: int) -> Comparison:
    """Run both in turn. The first round fills caches and does not count."""
    pairs = [(other.run(), subject.run()) for _ in range(rounds + 1)][1:]
    return Comparison(
        milliseconds=statistics.median(mine for _, mine in pairs) * 1000,
        over=statistics.median(mine - theirs for theirs, mine in pairs) * 1000,
        ratio=statistics.median(mine / theirs for theirs, mine in pairs),
    )


def added(programs: Sequence[Program], others: Sequence[Program], unit: Program, rounds: int) -> tuple[float, float]:
    """Run all in turn; return the additional time of `programs` over `others`, in `unit`s and in ms."""
    pairs = []
    for _ in range(rounds + 1):
        one = unit.run()
        more = sum(program.run() - other.run() for program, other in zip(programs, others, strict=True))
        pairs.append((more / one, more * 1000))
    return statistics.median(ratio for ratio, _ in pairs[1:]), statistics.median(more for _, more in pairs[1:])
