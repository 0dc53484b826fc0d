"""What the toolkit adds to a container's start, with a runc behind it that does nothing.

    nox -s bench                       the table of docs/explanation/performance.md
    nox -s bench -- --rounds 100       with more rounds
    nox -s bench -- --check            fail where a target is missed by more than MARGIN

It measures an installation, not a checkout: `nox -s bench` builds the wheels and installs them first.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import Comparison, Program, compare

from amdgpu_discovery.simulate import build_host

# What a target may be missed by before the session fails: machines differ, and 2 cores are shared.
MARGIN = 1.25

SPEC = (
    '{"ociVersion":"1.2.0","process":{"user":{"uid":0,"gid":0},"args":["x"],"env":["PATH=/bin"%s],"cwd":"/"},'
    '"linux":{"resources":{"devices":[{"allow":false,"access":"rwm"}]}}}'
)


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, its target, and whether that is met within the margin."""

    what: str
    measured: str
    target: str
    met: bool


class Bench:
    """An installation, two simulated hosts and bundles for them, below one directory."""

    def __init__(self, directory: Path, rounds: int) -> None:
        self.directory = directory
        self.rounds = rounds
        self.scripts = Path(sysconfig.get_path("scripts"))
        self.nothing = directory / "bin"
        self.nothing.mkdir()
        shutil.copy("/bin/true", self.nothing / "runc")
        self.hosts = {name: build_host(directory / name, name) for name in ("mi300x-8", "mi300x-8-cpx")}
        self.bare = Program([sys.executable, "-I", "-S", "-c", "pass"], {"PATH": "/usr/bin:/bin"})

    def environment(self, host: str) -> dict[str, str]:
        """Return an engine's environment on a host, with the runc that does nothing."""
        return {"PATH": f"{self.nothing}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": self.hosts[host].root}

    def create(self, host: str, *request: str) -> Program:
        """Return a `create` of a container with this environment; its bundle is made anew each time."""
        bundle = self.directory / "bundle"
        bundle.mkdir(exist_ok=True)
        spec = SPEC % "".join(f',"{variable}"' for variable in request)
        return Program(
            [str(self.scripts / "amd-container-runtime"), "create", "--bundle", str(bundle), "c1"],
            self.environment(host),
            lambda: (bundle / "config.json").write_text(spec),
        )

    def command(self, host: str, *words: str) -> Program:
        """Return a run of one of our programs."""
        return Program([str(self.scripts / words[0]), *words[1:]], self.environment(host))


def rows(bench: Bench) -> Iterator[Row]:
    """Measure everything."""
    yield from pass_through(bench)
    yield over_bare(bench, "`create`, no GPU asked", bench.create("mi300x-8"), 0.35)
    yield over_bare(bench, "`create`, 8 GPUs", bench.create("mi300x-8", "AMD_VISIBLE_DEVICES=all"), 1.5)
    yield over_bare(bench, "`create`, 64 partitions, all", bench.create("mi300x-8-cpx", "AMD_VISIBLE_DEVICES=all"), 1.9)
    yield over_bare(bench, "`create`, 64 partitions, one", bench.create("mi300x-8-cpx", "AMD_VISIBLE_DEVICES=5"), 1.9)
    yield from traced(bench)
    yield over_bare(bench, "`amd-ctk gpu list`, 8 GPUs", bench.command("mi300x-8", "amd-ctk", "gpu", "list"), 12)


def pass_through(bench: Bench) -> Iterator[Row]:
    """Compare the launcher with a bare runc on a call that starts nothing."""
    through = bench.command("mi300x-8", "amd-container-runtime", "state", "c1")
    nothing = Program([str(bench.nothing / "runc"), "state", "c1"], {"PATH": "/usr/bin:/bin"})
    shim = compare(through, nothing, bench.rounds)
    yield Row("`state`, added time", f"{shim.over:.2f} ms", "1.0 ms", shim.over <= 1.0 * MARGIN)
    runc = shutil.which("runc") or shutil.which("runc", path="/usr/sbin")
    if runc:
        words = ["features"]
        real = Program([runc, *words], {"PATH": "/usr/sbin:/usr/bin"})
        behind = Program([through.words[0], *words], {"PATH": "/usr/sbin:/usr/bin"})
        yield ratio_row("a call of the real runc", compare(behind, real, bench.rounds), 1.3)


def over_bare(bench: Bench, what: str, program: Program, target: float) -> Row:
    """Compare a program with an interpreter that does nothing."""
    return ratio_row(what, compare(program, bench.bare, bench.rounds), target)


def ratio_row(what: str, measured: Comparison, target: float) -> Row:
    """Return a row for a ratio."""
    shown = f"{measured.ratio:.2f}x ({measured.milliseconds:.1f} ms)"
    return Row(what, shown, f"{target}x", measured.ratio <= target * MARGIN)


def traced(bench: Bench) -> Iterator[Row]:
    """Count system calls, processes and memory; these do not vary, so they have no margin."""
    for host, what, target in (("mi300x-8", "8 GPUs", 1000), ("mi300x-8-cpx", "64 partitions", 1500)):
        create = bench.create(host, "AMD_VISIBLE_DEVICES=all")
        if shutil.which("strace"):
            calls, _ = create.system_calls()
            yield Row(f"system calls of `create`, {what}", str(calls), str(target), calls <= target)
        megabytes = create.peak_memory()
        yield Row(f"peak memory of `create`, {what}", f"{megabytes:.1f} MB", "12 MB", megabytes <= 12)


def main(arguments: Sequence[str]) -> int:
    """Print the table; with --check return 1 where a target is missed."""
    rounds = int(arguments[arguments.index("--rounds") + 1]) if "--rounds" in arguments else 40
    with tempfile.TemporaryDirectory() as directory:
        measured = list(rows(Bench(Path(directory), rounds)))
    print("| | measured | target | |\n|---|--:|--:|---|")
    for row in measured:
        print(f"| {row.what} | {row.measured} | {row.target} | {'' if row.met else 'missed'} |")
    return int("--check" in arguments and not all(row.met for row in measured))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
