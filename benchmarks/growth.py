"""Measure how a start, some commands and a claim slow down with the number of GPUs and of their containers.

    python benchmarks/growth.py                     the tables of docs/explanation/performance.md
    python benchmarks/growth.py --rounds 10

Ratios are relative to a Python that does nothing. The containers of the second table are alive and share one GPU.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench import IN_MEMORY, SPEC
from installation import PYTHON, install
from large_host import build_large_host
from measure import Program, compare

from amd_gpu_tracker.book.lease import Lease, boot_offset
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.face.tracker import Tracker
from amd_gpu_tracker.leases.processes import Processes
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus

GPUS = (1, 8, 64, 512)
LEASES = (0, 100, 1000)
SHARED, EXCLUSIVE = "0", "1"


class Growth:
    """An installation, and hosts of several sizes."""

    def __init__(self, directory: Path, on_disk: Path, rounds: int) -> None:
        self.directory = directory
        self.programs = install(on_disk) / "usr/bin"
        self.rounds = rounds
        (directory / "runc").symlink_to("/bin/true")
        self.bare = Program([str(PYTHON), "-I", "-S", "-c", "pass"], {})

    def with_gpus(self) -> Iterator[str]:
        """Measure a host of each size."""
        for count in GPUS:
            host = build_large_host(self.directory / f"gpus-{count}", count)
            lines = (("gpu", "list"), ("explain", "-e", "AMD_VISIBLE_DEVICES=all"), ("doctor",))
            programs = [self._create(host, "all"), *(self._command(host, *words) for words in lines)]
            yield f"| {count} | {' | '.join(map(self._ratio, programs))} |"

    def with_leases(self) -> Iterator[str]:
        """Measure a host of four GPUs with a growing number of containers."""
        for count in LEASES:
            host = build_large_host(self.directory / f"leases-{count}", 4)
            Tracker(host).enable()
            Tracker(host).set_accessibility(EXCLUSIVE, exclusive=True)
            _write_leases(host, count)
            status = self._command(host, "gpu-tracker", "status")
            creates = (self._create(host, request) for request in (SHARED, EXCLUSIVE))
            yield f"| {count} | {' | '.join(map(self._ratio, (status, *creates)))} |"

    def _ratio(self, program: Program) -> str:
        measured = compare(program, self.bare, self.rounds)
        return f"{measured.ratio:.2f}x ({measured.milliseconds:.1f} ms)"

    def _command(self, host: Host, *words: str) -> Program:
        return Program([f"{self.programs}/amd-ctk", *words], {"PATH": "/usr/bin:/bin", "AMD_CTK_HOST_ROOT": host.root})

    def _create(self, host: Host, request: str) -> Program:
        bundle = self.directory / "bundle"
        bundle.mkdir(exist_ok=True)

        def prepare() -> None:
            (bundle / "config.json").write_text(SPEC % f',"AMD_VISIBLE_DEVICES={request}"')
            for lease in Path(host.path("/run/amd-container-toolkit/leases")).glob("new@*"):
                lease.unlink()

        words = [f"{self.programs}/amd-container-runtime", "create", "--bundle", str(bundle), "new"]
        environment = {"PATH": f"{self.directory}:/usr/bin:/bin", "AMD_CTK_HOST_ROOT": host.root}
        return Program(words, environment, prepare)


def _write_leases(host: Host, count: int) -> None:
    """Write leases of containers whose init is this process."""
    state = State(host)
    processes = Processes()
    gpu = locate_gpus(host)[0].key
    for number in range(count):
        state.write_lease(
            Lease(
                container_id=f"{number:064x}",
                creator=processes.myself(),
                init=processes.myself(),
                gpus=(gpu,),
                ways=("env",),
                since=time.time(),
                boot_offset=boot_offset(),
                boot_id=processes.boot_id,
                namespace=processes.namespace,
            )
        )


def main(words: list[str]) -> int:
    """Print the two tables."""
    rounds = int(words[words.index("--rounds") + 1]) if "--rounds" in words else 30
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as directory, tempfile.TemporaryDirectory() as on_disk:
        growth = Growth(Path(directory), Path(on_disk), rounds)
        print("| GPUs | `create`, all | `amd-ctk gpu list` | `explain`, all | `doctor` |\n|--:|--:|--:|--:|--:|")
        for row in growth.with_gpus():
            print(row, flush=True)
        print("\n| containers | `gpu-tracker status` | `create`, shared GPU | `create`, exclusive GPU |")
        print("|--:|--:|--:|--:|")
        for row in growth.with_leases():
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
