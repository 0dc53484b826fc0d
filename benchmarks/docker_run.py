"""Measure how much the runtime slows down a whole `docker run`, with the GPU Tracker off and on, as root.

    python benchmarks/docker_run.py                 200 rounds of three runs
    python benchmarks/docker_run.py --rounds 20

In each round, runc alone makes one container, and the runtime makes one without and one with the tracker. The latter
have 8 GPUs of a simulated host. Docker is real, with its own sockets and data. Results are medians of the differences
within a round. The range in brackets contains 95 of 100 medians of resampled rounds.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests-integration"))

from installation import PYTHON, install
from measure import Program, compare

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host
from support.busybox import build_rootfs, pack
from support.docker import IMAGE, Docker

DRAWN_AGAIN = 1000
ALONE, OFF, ON = "alone", "off", "on"


def main(words: list[str]) -> int:
    """Print what both add to a run; return 1 if the tracker adds more than a bare interpreter."""
    rounds = int(words[words.index("--rounds") + 1]) if "--rounds" in words else 200
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        docker = _start_docker(Path(directory))
        try:
            times = [{runtime: _run(docker, runtime) for runtime in (ALONE, OFF, ON)} for _ in range(rounds + 1)][1:]
        finally:
            docker.stop()
    bare = compare(*[Program([str(PYTHON), "-I", "-S", "-c", "pass"], {})] * 2, rounds).milliseconds
    print(f"a bare interpreter: {bare:.1f} ms")
    print(f"the runtime adds to docker run, tracker off: {_difference(times, OFF, ALONE)}")
    print(f"the tracker adds to that: {_difference(times, ON, OFF)}")
    return int(_median(times, ON, OFF) > bare)


def _start_docker(directory: Path) -> Docker:
    """Start an engine with runc, and with amd-container-runtime for a host without and one with the tracker."""
    program = install(directory) / "usr/bin/amd-container-runtime"
    runtimes = {ALONE: {"path": "runc"}}
    for name in (OFF, ON):
        host = build_host(directory / name, "mi300x-8")
        if name == ON:
            Tracker(host).enable()
        wrapper = directory / f"runtime-{name}"
        wrapper.write_text(f'#!/bin/sh\nAMD_CTK_HOST_ROOT={host.root} exec {program} "$@"\n')
        wrapper.chmod(0o755)
        runtimes[name] = {"path": str(wrapper)}
    docker = Docker(program, "/", str(directory), runtimes=runtimes)
    docker.start()
    docker.import_image(pack(build_rootfs(directory / "rootfs"), directory / "image.tar"))
    return docker


def _run(docker: Docker, runtime: str) -> float:
    """Return the seconds of a `docker run` whose container ends at once."""
    words = ("run", "--rm", f"--runtime={runtime}", "--network=none", "--env=AMD_VISIBLE_DEVICES=all", IMAGE, "true")
    command = ["/usr/bin/env", "docker", "-H", f"unix://{docker.socket}", *words]
    return Program(command, {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}).run()


def _median(times: list[dict[str, float]], one: str, other: str) -> float:
    return statistics.median(of_round[one] - of_round[other] for of_round in times) * 1000


def _difference(times: list[dict[str, float]], one: str, other: str) -> str:
    drawn = sorted(_median(random.choices(times, k=len(times)), one, other) for _ in range(DRAWN_AGAIN))
    low, high = drawn[DRAWN_AGAIN // 40], drawn[-DRAWN_AGAIN // 40]
    return f"{_median(times, one, other):+.1f} ms ({low:+.1f} to {high:+.1f})"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
