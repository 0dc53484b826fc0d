"""Start containers back to back while engines are killed in between, and check that nothing grows, as root.

    nox -s load                      an hour
    nox -s load -- --minutes 10

The runtime with runc makes most containers; each is compared with a bare interpreter that ran right before it. Docker
makes some of them. The simulated host has four GPUs and the tracker enabled; GPU 1 is exclusive. The table compares the
first and the last sixth of the time; docs/maintain/endurance.md has the last such table.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests-integration"))

from container_start import IN_MEMORY
from installation import PYTHON, install
from measure import QUIET, Program

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host
from support.busybox import build_rootfs, pack
from support.docker import IMAGE, Docker

REQUESTS = ("0", "1", "0-3", "all", "2")
# Other actions, and the number of containers between them.
EVERY = {"kill_a_start": 10, "run_in_docker": 25, "kill_docker": 100}
# Share of the time to compare, at the beginning and at the end.
WINDOW = 1 / 6


class Start(NamedTuple):
    """One start: its time, its length in bare interpreters, and its peak memory in MiB, including runc's."""

    minute: float
    ratio: float
    memory: float


class Files(NamedTuple):
    """Number and size of the files on the simulated host, and the size of the logs."""

    count: int
    size: int
    log: int


class Load:
    """An installation on the disk, a host and bundles in memory, and an engine."""

    def __init__(self, directory: Path, on_disk: Path) -> None:
        self.host = build_host(directory / "host", "mi210-4", bare=True)
        Tracker(self.host).enable()
        Tracker(self.host).set_accessibility("1", exclusive=True)
        self.runtime = install(on_disk) / "usr/bin/amd-container-runtime"
        self.state = directory / "runc"
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "AMD_CTK_HOST_ROOT": self.host.root}
        self.bare = Program([str(PYTHON), "-I", "-S", "-c", "pass"], {})
        rootfs = build_rootfs(directory / "rootfs")
        self.bundles = [_write_bundle(directory / f"bundle-{request}", rootfs, request) for request in REQUESTS]
        self.docker = Docker(self.runtime, self.host.root)
        self.docker.start()
        self.docker.import_image(pack(rootfs, directory / "rootfs.tar"))

    def start(self, number: int) -> tuple[float, float]:
        """Create a container and remove it; return its time in bare interpreters, and the peak memory."""
        bare = self.bare.run()
        begin = time.perf_counter()
        _, status, usage = os.wait4(self._create(number), 0)
        elapsed = time.perf_counter() - begin
        if status:
            raise SystemExit(f"container {number} does not start")
        self._call("delete", "--force", f"c{number}")
        return elapsed / bare, usage.ru_maxrss / 1024

    def kill_a_start(self, number: int, chance: random.Random) -> None:
        """Kill the runtime in the middle of a start, and remove runc's container without the runtime."""
        child = self._create(number, "killed")
        time.sleep(chance.uniform(0, 0.3))
        os.kill(child, 9)
        os.waitpid(child, 0)
        subprocess.run(
            ["runc", "--root", self.state, "delete", "--force", f"c{number}"], capture_output=True, check=False
        )

    def run_in_docker(self, *_: object) -> None:
        """Run a container with the exclusive GPU in Docker."""
        self.docker("run", "--rm", "--runtime=amd", "--network=none", "--env=AMD_VISIBLE_DEVICES=1", IMAGE, "true")

    def kill_docker(self, *_: object) -> None:
        """Kill both daemons while a container has the exclusive GPU, and start them again."""
        holder = ("--detach", "--name=holder", "--runtime=amd", "--network=none", "--env=AMD_VISIBLE_DEVICES=1")
        self.docker("run", *holder, IMAGE, "sleep", "1000")
        self.docker.dockerd.kill()
        self.docker.containerd.kill()
        self.docker.halt()
        self.docker.start()
        self.docker("rm", "--force", "holder")

    def files(self) -> Files:
        """Count the files on the host."""
        paths = [path for path in Path(self.host.root).rglob("*") if path.is_file() and not path.is_symlink()]
        logs = [path for path in paths if "log" in path.parent.name]
        size = sum(path.stat().st_size for path in paths)
        log = sum(path.stat().st_size for path in logs)
        return Files(len(paths), size - log, log)

    def _create(self, number: int, name: str = "c") -> int:
        words = [self.runtime, "--root", self.state, "create", "--bundle", self.bundles[number % len(self.bundles)]]
        words = [*map(os.fspath, words), f"{name}{number}"]
        return os.posix_spawn(words[0], words, self.environment, file_actions=QUIET)

    def _call(self, *words: str) -> None:
        subprocess.run(
            [self.runtime, "--root", self.state, *words], env=self.environment, capture_output=True, check=True
        )


def _write_bundle(bundle: Path, rootfs: Path, request: str) -> Path:
    bundle.mkdir()
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    spec = json.loads((bundle / "config.json").read_text())
    spec["root"] = {"path": os.fspath(rootfs), "readonly": True}
    spec["process"] |= {"terminal": False, "args": ["true"]}
    spec["process"]["env"].append(f"AMD_VISIBLE_DEVICES={request}")
    spec["linux"]["cgroupsPath"] = f"/amd-load-{os.getpid()}"
    (bundle / "config.json").write_text(json.dumps(spec))
    return bundle


def main(words: list[str]) -> int:
    """Print the table; return 1 if a GPU is not free at the end."""
    minutes = float(words[words.index("--minutes") + 1]) if "--minutes" in words else 60
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory, tempfile.TemporaryDirectory() as on_disk:
        load = Load(Path(directory), Path(on_disk))
        try:
            return _go_on(load, minutes)
        finally:
            load.docker.stop()


def _go_on(load: Load, minutes: float) -> int:
    chance, begin, starts, early = random.Random(1), time.monotonic(), list[Start](), None
    counts: Counter[str] = Counter()
    minute = 0.0
    while minute < minutes:
        number = len(starts) + 1
        starts.append(Start(minute, *load.start(number)))
        for what, every in EVERY.items():
            if number % every == 0:
                getattr(load, what)(number, chance)
                counts[what] += 1
        minute = (time.monotonic() - begin) / 60
        if early is None and minute > minutes * WINDOW:
            early = load.files()
    _print_table(starts, minutes, early or load.files(), load.files())
    print(
        f"\nin {60 * minute:.0f} s: {len(starts)} containers of runc, {counts['kill_a_start']} killed while starting,"
    )
    print(f"{counts['run_in_docker']} of Docker, whose daemons were killed {counts['kill_docker']} times")
    used = [use for gpu in Tracker(load.host).status().gpus for use in gpu.containers]
    print(f"GPUs in use at the end: {used}")
    return int(bool(used))


def _print_table(starts: list[Start], minutes: float, early: Files, late: Files) -> None:
    length = minutes * WINDOW
    first = [start for start in starts if start.minute < length]
    last = [start for start in starts if start.minute >= minutes - length]
    rows: dict[str, list[object]] = {
        "containers of runc": [len(first), len(last)],
        "a start, in bare interpreters": [f"{_median(some, 'ratio'):.2f}" for some in (first, last)],
        "peak memory of a start, MiB": [f"{_median(some, 'memory'):.1f}" for some in (first, last)],
        "files of the host": [early.count, late.count],
        "their size, bytes": [early.size, late.size],
        "the log, which logrotate cuts, bytes": [early.log, late.log],
    }
    print(f"| | first {length:.0f} minutes | last {length:.0f} minutes |\n|---|--:|--:|")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(map(str, cells))} |")


def _median(starts: list[Start], name: str) -> float:
    return statistics.median(getattr(start, name) for start in starts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
