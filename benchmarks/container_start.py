"""What the toolkit adds to a container's start, with a runc behind it that does nothing.

    nox -s bench                       the table of docs/explanation/performance.md
    nox -s bench -- --rounds 100       with more rounds
    nox -s bench -- --rival NAME=PATH  and of another runtime, which is given the same bundles

It fails where a target is missed by more than MARGIN.

It measures what packages install, not a checkout: they are built first, and laid out as after their postinst.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

from installation import PYTHON, install
from many_at_once import Throughput
from measure import Comparison, Program, compare

from amd_gpu_tracker.tracker import Tracker
from amdgpu_discovery.host import Host
from amdgpu_discovery.simulate import build_host

EIGHT, PARTITIONED, TRACKED, ENABLED = "eight", "partitioned", "tracked", "enabled"
CDI = ("amd-ctk", "cdi", "generate")
CONTAINERS = 256
ROUNDS_AT_ONCE = 3
# No process but ourselves: the launcher looks with grep whether it needs python, and all of it ends as runc.
EXECUTED = ["amd-container-runtime", "grep", "python3", "runc"]

# As /sys, and /run where engines put their bundles, are on a real host.
IN_MEMORY = "/dev/shm"

# What a target may be missed by before the session fails: machines differ, and 2 cores are shared.
MARGIN = 1.15

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
    """An installation on the disk, where python is too; simulated hosts and bundles for them in memory."""

    def __init__(self, directory: Path, on_disk: Path, rounds: int) -> None:
        self.directory = directory
        self.rounds = rounds
        self.installed = install(on_disk)
        # What was just built would be written to the disk meanwhile.
        os.sync()
        self.nothing = directory / "bin"
        self.nothing.mkdir()
        shutil.copy("/bin/true", self.nothing / "runc")
        profiles = {EIGHT: "mi300x-8", PARTITIONED: "mi300x-8-cpx", TRACKED: "mi300x-8", ENABLED: "mi300x-8"}
        self.hosts = {name: build_host(directory / name, profile) for name, profile in profiles.items()}
        for name in (TRACKED, ENABLED):
            Tracker(self.hosts[name]).enable()
        self.bare = Program([str(PYTHON), "-I", "-S", "-c", "pass"], {"PATH": "/usr/bin:/bin"})

    def environment(self, host: str) -> dict[str, str]:
        """Return an engine's environment on a host, with the runc that does nothing."""
        return {"PATH": f"{self.nothing}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": self.hosts[host].root}

    def program(self, name: str) -> str:
        """Return the path of an installed program."""
        return f"{self.installed}/usr/bin/{name}"

    def create(self, host: str, *request: str, container: str = "c1", program: str = "") -> Program:
        """Return a `create` of a container with this environment; its bundle is made again each time.

        `program` is a runtime other than amd-container-runtime.
        """
        bundle = self.directory / f"bundle-{container}"
        bundle.mkdir(exist_ok=True)
        spec = SPEC % "".join(f',"{variable}"' for variable in request)

        def prepare() -> None:
            (bundle / "config.json").write_text(spec)
            forget(self.hosts[host])

        # Of this very process, so that containers live although their runc has done nothing.
        (bundle / "pid").write_text(str(os.getpid()))
        options = ["--bundle", str(bundle), "--pid-file", str(bundle / "pid")]
        words = [program or self.program("amd-container-runtime"), "create", *options, container]
        return Program(words, self.environment(host), prepare)

    def command(self, host: str, *words: str) -> Program:
        """Return a run of one of our programs."""
        return Program([self.program(words[0]), *words[1:]], self.environment(host))

    def claim_hook(self) -> Program:
        """Return a run of the claim hook for a container that was given one GPU as a device."""
        # Of a container whose init is this very process, so that it lives.
        state = self._state_of_container(os.getpid())
        return Program(self._hook_words("claim"), {}, lambda: forget(self.hosts[TRACKED]), standard_input=state)

    def release_hook(self) -> Program:
        """Return a run of the release hook for the same container, which has ended and has its lease still."""
        state = self._state_of_container(0)
        ended = subprocess.Popen(["/bin/true"])
        ended.wait()
        leases = self.hosts[TRACKED].path("/run/amd-container-toolkit/leases")
        self.claim_hook().run()
        (lease,) = Path(leases).glob("c9@*.json")
        content = lease.read_text(encoding="utf-8").replace(f'"pid":{os.getpid()},', f'"pid":{ended.pid},')
        library = f"{self.installed}/usr/lib/amd-container-toolkit/python"
        words = ["/bin/sh", f"{library}/amd_gpu_tracker/release.sh", leases, *self._hook_words("release")]
        return Program(words, {}, lambda: lease.write_text(content, encoding="utf-8"), standard_input=state)

    def _state_of_container(self, pid: int) -> str:
        """Write what a runtime gives to hooks; return its path."""
        bundle = self.directory / "given"
        bundle.mkdir(exist_ok=True)
        devices = [{"path": "/dev/dri/renderD128", "type": "c", "major": 226, "minor": 128}]
        namespaces = [{"type": "pid"}]
        (bundle / "config.json").write_text(json.dumps({"linux": {"devices": devices, "namespaces": namespaces}}))
        state = bundle / f"state-{pid}.json"
        state.write_text(json.dumps({"ociVersion": "1.2.0", "id": "c9", "pid": pid, "bundle": str(bundle)}))
        return str(state)

    def _hook_words(self, command: str) -> list[str]:
        library = f"{self.installed}/usr/lib/amd-container-toolkit"
        words = [f"{library}/python3", "-I", "-S", "-B", f"{library}/python/amd_gpu_tracker/hook.py", command]
        return [*words, "--import-from", f"{library}/python", "--host-root", self.hosts[TRACKED].root]


def forget(host: Host) -> None:
    """Take away what earlier runs left with the tracker, whose containers are all over."""
    leases = Path(host.path("/run/amd-container-toolkit/leases"))
    for lease in leases.glob("*"):
        lease.unlink()


def rows(bench: Bench) -> Iterator[Row]:
    """Measure everything."""
    every = "AMD_VISIBLE_DEVICES=all"
    yield from pass_through(bench)
    yield over_bare(bench, "`create`, no GPU asked", bench.create(EIGHT), 0.35)
    yield over_bare(bench, "`create`, 8 GPUs", bench.create(EIGHT, every), 1.75)
    yield over_bare(bench, "`create`, 64 partitions, all", bench.create(PARTITIONED, every), 1.9)
    yield over_bare(bench, "`create`, 64 partitions, one", bench.create(PARTITIONED, "AMD_VISIBLE_DEVICES=5"), 1.9)
    yield life(bench, EIGHT, "8 GPUs", 2.0)
    yield life(bench, PARTITIONED, "64 partitions", 2.3)
    yield tracker_on_top(bench, every)
    yield from traced(bench)
    yield from commands(bench)
    yield from hooks(bench)
    yield many_at_once(bench)


def rival(bench: Bench, name: str, path: str) -> Iterator[Row]:
    """Measure another runtime in the place of amd-container-runtime, without a target."""
    requests = {"no GPU asked": (EIGHT, ()), "8 GPUs": (EIGHT, ("AMD_VISIBLE_DEVICES=all",))}
    requests["64 partitions, all"] = (PARTITIONED, ("AMD_VISIBLE_DEVICES=all",))
    for what, (host, request) in requests.items():
        measured = compare(bench.create(host, *request, program=path), bench.bare, bench.rounds)
        yield Row(f"{name}: `create`, {what}", f"{measured.ratio:.2f}x ({measured.milliseconds:.1f} ms)", "", True)


def life(bench: Bench, host: str, what: str, target: float) -> Row:
    """Add up what the runtime adds to a container's life in Docker: to create, start, kill and delete."""
    nothing = Program([str(bench.nothing / "runc"), "state", "c1"], {"PATH": "/usr/bin:/bin"})
    state = bench.command(host, "amd-container-runtime", "state", "c1")
    calls = (bench.create(host, "AMD_VISIBLE_DEVICES=all"), state, state, state)
    added = sum(compare(call, nothing, bench.rounds).over for call in calls)
    bare = compare(bench.bare, bench.bare, bench.rounds).milliseconds
    return Row(
        f"a life in Docker, {what}",
        f"{added / bare:.2f}x ({added:.1f} ms)",
        f"{target}x",
        added <= bare * target * MARGIN,
    )


def tracker_on_top(bench: Bench, request: str) -> Row:
    """Compare starts with the tracker on and off; what it adds is told in bare interpreters."""
    added = compare(bench.create(TRACKED, request), bench.create(EIGHT, request), bench.rounds).over
    bare = compare(bench.bare, bench.bare, bench.rounds).milliseconds
    shown = f"{added / bare:.2f}x ({added:.1f} ms)"
    return Row("tracker on, added to `create`, 8 GPUs", shown, "0.15x", added <= bare * 0.15 * MARGIN)


def many_at_once(bench: Bench) -> Row:
    """Start 256 containers together, against as many bare interpreters that take the same lock."""
    creates = [bench.create(TRACKED, f"AMD_VISIBLE_DEVICES={n % 8}", container=f"m{n}") for n in range(CONTAINERS)]
    ratio = Throughput(creates, str(PYTHON), bench.hosts[TRACKED]).ratio(ROUNDS_AT_ONCE)
    shown = f"{ratio:.2f}x, none failed"
    return Row(f"{CONTAINERS} creates at once, tracker on, throughput", shown, "at least 0.6x", ratio >= 0.6 / MARGIN)


def pass_through(bench: Bench) -> Iterator[Row]:
    """Compare the launcher with a bare runc on a call that starts nothing."""
    through = bench.command(EIGHT, "amd-container-runtime", "state", "c1")
    nothing = Program([str(bench.nothing / "runc"), "state", "c1"], {"PATH": "/usr/bin:/bin"})
    shim = compare(through, nothing, bench.rounds)
    yield Row("`state`, added time", f"{shim.over:.2f} ms", "1.0 ms", shim.over <= 1.0 * MARGIN)
    runc = shutil.which("runc") or shutil.which("runc", path="/usr/sbin")
    if runc:
        words = ["features"]
        real = Program([runc, *words], {"PATH": "/usr/sbin:/usr/bin"})
        behind = Program([through.words[0], *words], {"PATH": "/usr/sbin:/usr/bin"})
        yield ratio_row("a call of the real runc", compare(behind, real, bench.rounds), 1.3)


def commands(bench: Bench) -> Iterator[Row]:
    """Measure commands with their output to a pipe; `typer` alone takes seven bare interpreters."""
    yield over_bare(bench, "`amd-ctk cdi generate`, 64 partitions", bench.command(PARTITIONED, *CDI), 14)
    yield over_bare(bench, "`amd-ctk cdi generate`, 8 GPUs", bench.command(EIGHT, *CDI), 11)
    for words in ("gpu list", "gpu-tracker status", "cdi list", "--help", "version"):
        yield over_bare(bench, f"`amd-ctk {words}`", bench.command(ENABLED, "amd-ctk", *words.split()), 9)


def hooks(bench: Bench) -> Iterator[Row]:
    """Measure the hooks of CDI specs, which a container has at its start and its end."""
    claim = compare(bench.claim_hook(), bench.bare, bench.rounds)
    release = compare(bench.release_hook(), bench.bare, bench.rounds)
    yield ratio_row("claim hook", claim, 1.9)
    yield ratio_row("release hook of a container that has ended", release, 0.35)
    together = claim.ratio + release.ratio
    yield Row("both hooks", f"{together:.2f}x", "2.1x", together <= 2.1 * MARGIN)


def over_bare(bench: Bench, what: str, program: Program, target: float) -> Row:
    """Compare a program with an interpreter that does nothing."""
    return ratio_row(what, compare(program, bench.bare, bench.rounds), target)


def ratio_row(what: str, measured: Comparison, target: float) -> Row:
    """Return a row for a ratio."""
    shown = f"{measured.ratio:.2f}x ({measured.milliseconds:.1f} ms)"
    return Row(what, shown, f"{target}x", measured.ratio <= target * MARGIN)


def traced(bench: Bench) -> Iterator[Row]:
    """Count system calls, processes and memory; these do not vary, so they have no margin."""
    for host, what, target in ((EIGHT, "8 GPUs", 1000), (PARTITIONED, "64 partitions", 1500)):
        create = bench.create(host, "AMD_VISIBLE_DEVICES=all")
        if shutil.which("strace"):
            calls, programs = create.system_calls()
            shown = f"{calls}, programs {' '.join(programs)}"
            met = calls <= target and programs == EXECUTED
            yield Row(f"system calls of `create`, {what}", shown, str(target), met)
        megabytes = create.peak_memory()
        yield Row(f"peak memory of `create`, {what}", f"{megabytes:.1f} MB", "12 MB", megabytes <= 12)


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 where a target is missed."""
    rounds = int(arguments[arguments.index("--rounds") + 1]) if "--rounds" in arguments else 40
    pairs = pairwise(arguments)
    rivals = [(name, path) for word, value in pairs if word == "--rival" for name, _, path in [value.partition("=")]]
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory, tempfile.TemporaryDirectory() as on_disk:
        print("| | measured | target | |\n|---|--:|--:|---|", flush=True)
        missed = 0
        bench = Bench(Path(directory), Path(on_disk), rounds)
        for row in chain(rows(bench), *(rival(bench, name, path) for name, path in rivals)):
            print(f"| {row.what} | {row.measured} | {row.target} | {'' if row.met else 'missed'} |", flush=True)
            missed += not row.met
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
