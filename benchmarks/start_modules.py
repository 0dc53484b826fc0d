"""Count the toolkit's modules that one container start enters, and how often it moves from one to another.

Example: python benchmarks/start_modules.py          (8 GPUs; again with the GPU Tracker enabled)
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType

from amd_container_runtime.shim import main
from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host

PACKAGES = ("amd_container_runtime.", "amd_device_spec.", "amd_gpu_tracker.", "amdgpu_discovery.")
SPEC = {"ociVersion": "1.2.0", "process": {"env": ["AMD_VISIBLE_DEVICES=all"]}, "linux": {"namespaces": []}}


def run() -> None:
    with tempfile.TemporaryDirectory() as directory:
        host = build_host(f"{directory}/host", "mi300x-8")
        for title in ("tracker off", "tracker on"):
            # The first start after a change of the policy compares all GPUs again.
            count(Path(directory), host.root)
            Tracker(host).release("c1")
            modules, moves = count(Path(directory), host.root)
            print(f"{title}: {len(modules)} modules, {moves} moves")
            print("   ", " ".join(sorted(name.partition("_")[2] for name in modules)))
            Tracker(host).enable()


def count(directory: Path, root: str) -> tuple[set[str], int]:
    """Return the modules that one create enters, and the moves between them."""
    (directory / "config.json").write_text(json.dumps(SPEC), encoding="utf-8")
    runc = directory / "runc"
    runc.write_text("#!/bin/sh\n", encoding="utf-8")
    runc.chmod(0o755)
    os.environ.update(AMD_CTK_HOST_ROOT=root, PATH=f"{directory}:/usr/bin:/bin")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        _report_start(directory, writer)
    os.close(writer)
    with open(reader, encoding="utf-8") as pipe:
        names = pipe.read().split()
    os.waitpid(child, 0)
    return set(names), sum(1 for name, after in pairwise(names) if name != after)


def _report_start(directory: Path, writer: int) -> None:
    """Write the module of each call of one start, and exit."""
    sys.argv = ["/usr/bin/amd-container-runtime", "create", "--bundle", str(directory), "c1"]
    with _watched() as entered:
        # Replaces the execution of runc.
        import posix

        posix.execve = lambda *_: sys.exit(0)
        with suppress(SystemExit):
            main()
    os.write(writer, " ".join(entered).encode())
    os._exit(0)


@contextmanager
def _watched() -> Iterator[list[str]]:
    entered: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        name = frame.f_globals.get("__name__", "")
        # Importing a module runs its body, which is no call.
        if event == "call" and name.startswith(PACKAGES) and frame.f_code.co_name != "<module>":
            entered.append(name)

    sys.setprofile(note)
    try:
        yield entered
    finally:
        sys.setprofile(None)


if __name__ == "__main__":
    run()
