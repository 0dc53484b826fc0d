"""Measure how much the toolkit slows down a container's start, with a runc that does nothing.

    nox -s bench                           the table of docs/explanation/performance.md
    nox -s bench -- --rounds 100           with more rounds
    nox -s bench -- --beside NAME=PROGRAM  and another runtime with the same bundles

It fails if a target is missed by more than MARGIN.

It measures installed packages, not a checkout: it builds them and lays them out as after their postinst.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

from bench import EIGHT, ENABLED, IN_MEMORY, LARGE, PARTITIONED, TRACKED, Bench
from installation import PYTHON
from many_at_once import Throughput
from measure import Comparison, Program, added, compare

CDI = ("amd-ctk", "cdi", "generate")
RUN = ("run", "--gpus=0", "--", "/bin/true")
# With exactly these words, commands print before Typer is imported.
AT_ONCE = ("version", "--version", "gpu list", "gpu-tracker status", "queue list", "cdi list")
CONTAINERS = 256
ROUNDS_AT_ONCE = 3
# Only expected programs: the launcher searches with grep whether it needs python, and becomes runc at the end.
EXECUTED = ["amd-container-runtime", "grep", "python3", "runc"]

# Tolerance before the session fails, because machines differ and two cores are shared.
MARGIN = 1.15


@dataclass(frozen=True)
class Row:
    """One line of the table: the subject, its result, its target, and whether the target is met within the margin."""

    what: str
    measured: str
    target: str
    met: bool


def rows(bench: Bench) -> Iterator[Row]:
    """Measure everything and yield the rows."""
    every = "AMD_VISIBLE_DEVICES=all"
    yield from pass_through(bench)
    nothing = compare(bench.create(EIGHT), bench.shell("grep -q x /dev/null; exec runc"), bench.rounds)
    yield ratio_row("`create`, no GPU asked, to a shell that runs grep and runc", nothing, 1.2)
    yield over_bare(bench, "`create`, 8 GPUs", bench.create(EIGHT, every), 1.75)
    yield over_bare(bench, "`create`, 64 partitions, all", bench.create(PARTITIONED, every), 1.9)
    yield over_bare(bench, "`create`, 64 partitions, one", bench.create(PARTITIONED, "AMD_VISIBLE_DEVICES=5"), 1.9)
    yield life(bench, EIGHT, "8 GPUs", 2.0)
    yield life(bench, PARTITIONED, "64 partitions", 2.3)
    yield tracker_on_top(bench, every)
    yield from traced(bench)
    if shutil.which("strace"):
        yield from counted(bench)
    yield from commands(bench)
    yield from hooks(bench)
    yield many_at_once(bench)


def beside(bench: Bench, name: str, path: str) -> Iterator[Row]:
    """Measure another runtime in place of amd-container-runtime, without a target."""
    shim = compare(bench.command(EIGHT, path, "state", "c1"), bench.nothing_but_state(), bench.rounds)
    yield Row(f"{name}: `state`, added time", f"{shim.over:.2f} ms", "", True)
    requests = {"no GPU asked": (EIGHT, ()), "8 GPUs": (EIGHT, ("AMD_VISIBLE_DEVICES=all",))}
    requests["64 partitions, all"] = (PARTITIONED, ("AMD_VISIBLE_DEVICES=all",))
    for what, (host, request) in requests.items():
        measured = compare(bench.create(host, *request, program=path), bench.bare, bench.rounds)
        yield Row(f"{name}: `create`, {what}", f"{measured.ratio:.2f}x ({measured.milliseconds:.1f} ms)", "", True)
    for host, what in ((EIGHT, "8 GPUs"), (PARTITIONED, "64 partitions")):
        measured = life(bench, host, what, 0, program=path).measured
        yield Row(f"{name}: Docker create, start, kill and delete, {what}", measured, "", True)


def life(bench: Bench, host: str, what: str, target: float, *, program: str = "") -> Row:
    """Sum up the time that a runtime adds to a container's life in Docker: create, start, kill and delete."""
    state = bench.command(host, program or "amd-container-runtime", "state", "c1")
    calls = (bench.create(host, "AMD_VISIBLE_DEVICES=all", program=program), *[state] * 3)
    others = (bench.nothing_but_state(),) * len(calls)
    return added_row(bench, f"Docker create, start, kill and delete, {what}", calls, others, target)


def tracker_on_top(bench: Bench, request: str) -> Row:
    """Compare starts with the tracker on and off, in units of a bare interpreter."""
    on, off = bench.create(TRACKED, request), bench.create(EIGHT, request)
    return added_row(bench, "tracker on, added to `create`, 8 GPUs", (on,), (off,), 0.3)


def added_row(bench: Bench, what: str, programs: Sequence[Program], others: Sequence[Program], target: float) -> Row:
    """Return the additional time of programs over others, in units of a bare interpreter."""
    ratio, milliseconds = added(programs, others, bench.bare, bench.rounds)
    return Row(what, f"{ratio:.2f}x ({milliseconds:.1f} ms)", f"{target}x", ratio <= target * MARGIN)


def many_at_once(bench: Bench) -> Row:
    """Start 256 containers together, and compare with as many bare interpreters that take the same lock."""
    creates = [bench.create(TRACKED, f"AMD_VISIBLE_DEVICES={n % 8}", container=f"m{n}") for n in range(CONTAINERS)]
    ratio = Throughput(creates, str(PYTHON), bench.hosts[TRACKED]).ratio(ROUNDS_AT_ONCE)
    shown = f"{ratio:.2f}x, none failed"
    return Row(f"{CONTAINERS} creates at once, tracker on, throughput", shown, "at least 0.5x", ratio >= 0.5 / MARGIN)


def pass_through(bench: Bench) -> Iterator[Row]:
    """Compare the launcher with a bare runc in a call that starts no container."""
    through = bench.command(EIGHT, "amd-container-runtime", "state", "c1")
    yield ratio_row("`state`, to a shell that runs runc", compare(through, bench.shell("exec runc"), bench.rounds), 1.1)
    runc = shutil.which("runc") or shutil.which("runc", path="/usr/sbin")
    if runc:
        words = ["features"]
        real = Program([runc, *words], {"PATH": "/usr/sbin:/usr/bin"})
        behind = Program([through.words[0], *words], {"PATH": "/usr/sbin:/usr/bin"})
        yield ratio_row("a call of the real runc", compare(behind, real, bench.rounds), 1.3)


def commands(bench: Bench) -> Iterator[Row]:
    """Measure commands with output to a pipe; importing `typer` alone takes seven bare interpreters."""
    yield over_bare(bench, "`amd-ctk cdi generate`, 64 partitions", bench.command(PARTITIONED, *CDI), 14)
    yield over_bare(bench, "`amd-ctk cdi generate`, 8 GPUs", bench.command(EIGHT, *CDI), 11)
    validate = ("amd-ctk", "cdi", "validate", "--path", bench.hosts[EIGHT].path("/etc/cdi/amd.json"))
    yield over_bare(bench, "`amd-ctk cdi validate`, 8 GPUs", bench.command(EIGHT, *validate), 10)
    for words in AT_ONCE:
        yield over_bare(bench, f"`amd-ctk {words}`", bench.command(ENABLED, "amd-ctk", *words.split()), 3)
    yield over_bare(bench, "`amd-ctk status`", bench.command(ENABLED, "amd-ctk", "status"), 3.5)
    yield over_bare(bench, "`amd-ctk top`, once", bench.command(ENABLED, "amd-ctk", "top"), 6)
    yield over_bare(bench, "`amd-ctk run --gpus=0 -- true`", bench.command(ENABLED, "amd-ctk", *RUN), 6)
    yield over_bare(bench, "`Tracker.reserve` in a program", bench.hold(), 3.6)
    yield over_bare(bench, "`amd-ctk --help`", bench.command(ENABLED, "amd-ctk", "--help"), 9)
    yield over_bare(bench, "`amd-ctk`, the TAB key behind `gpu `", bench.completion("gpu "), 9)
    yield from with_pip(bench)


def with_pip(bench: Bench) -> Iterator[Row]:
    """Compare commands installed by pip with those of the packages."""
    for words in (("gpu", "list"), RUN, ("cdi", "generate", "--help")):
        by_pip = bench.command(ENABLED, bench.pip_program("amd-ctk"), *words)
        measured = compare(by_pip, bench.command(ENABLED, "amd-ctk", *words), bench.rounds)
        # Packages start python without `site`, which does not support virtual environments, and import from one file.
        yield ratio_row(f"`amd-ctk {' '.join(words)}` of pip, to that of packages", measured, 1.2)


def hooks(bench: Bench) -> Iterator[Row]:
    """Measure the hooks of CDI specs, which run at a container's start and end."""
    claim = compare(bench.claim_hook(), bench.bare, bench.rounds)
    unlock = bench.shell("flock -n 9 9>/dev/null; exec rm -f /dev/null/none")
    release = compare(bench.release_hook(), unlock, bench.rounds)
    required = compare(bench.requirements_hook(), bench.shell("grep -q x /dev/null; :"), bench.rounds)
    yield ratio_row("image-requirements hook, an image that requires nothing, to a shell that runs grep", required, 1.2)
    yield ratio_row("claim hook", claim, 1.9)
    yield ratio_row("release hook of a container that has ended, to a shell that runs flock and rm", release, 1.3)


def over_bare(bench: Bench, what: str, program: Program, target: float) -> Row:
    """Compare a program with an interpreter that does nothing."""
    return ratio_row(what, compare(program, bench.bare, bench.rounds), target)


def ratio_row(what: str, measured: Comparison, target: float) -> Row:
    """Return a row for a ratio."""
    shown = f"{measured.ratio:.2f}x ({measured.milliseconds:.1f} ms)"
    return Row(what, shown, f"{target}x", measured.ratio <= target * MARGIN)


def traced(bench: Bench) -> Iterator[Row]:
    """Count system calls, processes and memory. These do not vary, so they have no margin."""
    for host, what, target in ((EIGHT, "8 GPUs", 1000), (PARTITIONED, "64 partitions", 1500)):
        create = bench.create(host, "AMD_VISIBLE_DEVICES=all")
        if shutil.which("strace"):
            seen = create.trace()
            shown = f"{seen.calls}, programs {' '.join(seen.programs)}"
            met = seen.calls <= target and seen.programs == EXECUTED
            yield Row(f"system calls of `create`, {what}", shown, str(target), met)
        megabytes = create.peak_memory()
        yield Row(f"peak memory of `create`, {what}", f"{megabytes:.1f} MB", "12 MB", megabytes <= 12)


def counted(bench: Bench) -> Iterator[Row]:
    """Count system calls and modules, where the times would not show a costly commit."""
    large = ("AMD_VISIBLE_DEVICES=all",)
    programs = (
        ("a tracked `create`, 512 GPUs", bench.create(LARGE, *large), 5400, 9),
        ("`amd-ctk status`", bench.command(EIGHT, "amd-ctk", "status"), 2200, 73),
        ("`amd-ctk explain`", bench.command(EIGHT, "amd-ctk", "explain", "-e", *large), 4000, 214),
        ("`amd-ctk cdi generate`", bench.command(EIGHT, *CDI), 2400, 168),
    )
    for what, program, most_calls, most_modules in programs:
        # The first run writes files that later ones find.
        program.run()
        seen = program.trace()
        met = seen.calls <= most_calls and seen.modules <= most_modules
        target = f"{most_calls}, {most_modules} modules"
        yield Row(f"system calls of {what}", f"{seen.calls}, {seen.modules} modules", target, met)


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if a target is missed."""
    rounds = int(arguments[arguments.index("--rounds") + 1]) if "--rounds" in arguments else 40
    pairs = pairwise(arguments)
    others = [(name, path) for word, value in pairs if word == "--beside" for name, _, path in [value.partition("=")]]
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory, tempfile.TemporaryDirectory() as on_disk:
        print("| | measured | target | |\n|---|--:|--:|---|", flush=True)
        missed = 0
        bench = Bench(Path(directory), Path(on_disk), rounds)
        for row in chain(rows(bench), *(beside(bench, name, path) for name, path in others)):
            print(f"| {row.what} | {row.measured} | {row.target} | {'' if row.met else 'missed'} |", flush=True)
            missed += not row.met
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
