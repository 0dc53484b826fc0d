"""No container that the launcher hands to runc or crun unread can open a GPU, however its config.json is written.

AMD_LAUNCHER_CASES=50000 tries as many files; the runtimes are those of this machine.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from support.bare_runtime import private_cgroups
from support.installed import engine_program, our_program, require_root
from support.odd_rules import odd_config

pytestmark = pytest.mark.e2e

CASES = int(os.environ.get("AMD_LAUNCHER_CASES", "300"))
SEED = int(os.environ.get("AMD_LAUNCHER_SEED", "1"))
# Of those that go to Python one in so many is run too, to see that the test can tell.
CONTROL = 20
SAYS_WHO = "#!/bin/sh\necho {}\n"
# A node without a driver answers ENXIO when it may be opened.
OPEN_GPU = """
mknod /tmp/render c 226 128; mknod /tmp/card c 226 0
for node in /tmp/render /tmp/card; do
    case $( (: <>$node) 2>&1) in *'No such device'*) echo opens ;; esac
done
"""


class Bench:
    """A bundle, the launcher beside programs that only say who they are, and the low-level runtimes."""

    def __init__(self, directory: Path, rootfs: Path) -> None:
        self.directory = directory
        self.spec = {
            "ociVersion": "1.0.2",
            "process": {
                "cwd": "/",
                "user": {"uid": 0, "gid": 0},
                "args": ["sh", "-c", OPEN_GPU],
                "env": ["PATH=/bin"],
                "capabilities": {name: ["CAP_MKNOD"] for name in ("bounding", "effective", "permitted")},
            },
            "root": {"path": str(rootfs), "readonly": True},
            "mounts": [{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}],
            "linux": {
                "cgroupsPath": f"/amd-launcher-{directory.name}",
                "namespaces": [{"type": "pid"}, {"type": "mount"}],
            },
        }
        self.launcher = self._install()

    def _install(self) -> Path:
        """Copy the launcher to where it finds no Python but one that says so."""
        programs = self.directory / "install/bin"
        programs.mkdir(parents=True)
        for name in ("python3", "runc"):
            (programs / name).write_text(SAYS_WHO.format(name))
            (programs / name).chmod(0o755)
        launcher = programs / "amd-container-runtime"
        launcher.write_bytes(our_program("amd-container-runtime").read_bytes())
        launcher.chmod(0o755)
        return launcher

    def write(self, text: str) -> None:
        (self.directory / "config.json").write_text(text, encoding="utf-8")

    def goes_to(self) -> str:
        words = [self.launcher, "create", "--bundle", self.directory, "c1"]
        environment = {"PATH": f"{self.launcher.parent}:/usr/bin:/bin"}
        return subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    def opens_gpu(self, runtime: Path) -> bool:
        root = self.directory / f"state-{runtime.name}"
        words = [*private_cgroups(runtime), runtime, "--root", root, "run", "--bundle", self.directory, "c1"]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        return "opens" in ended.stdout


@pytest.mark.timeout(0 if CASES > 1000 else 600)
def test_what_the_launcher_takes_for_harmless_opens_no_gpu(tmp_path: Path, rootfs: Path) -> None:
    require_root()
    runtimes = [engine_program("runc"), engine_program("crun")]
    bench = Bench(tmp_path, rootfs)
    rng = Random(SEED)
    handed_on = opened_by_control = 0

    for case in range(CASES):
        text = odd_config(rng, bench.spec)
        bench.write(text)
        if bench.goes_to() == "runc":
            handed_on += 1
            for runtime in runtimes:
                assert not bench.opens_gpu(runtime), f"{runtime.name}: {text}"
        elif case % CONTROL == 0:
            opened_by_control += any(map(bench.opens_gpu, runtimes))

    print(f"{CASES} files of seed {SEED}: {handed_on} handed on")
    assert handed_on > CASES // 50
    assert opened_by_control
