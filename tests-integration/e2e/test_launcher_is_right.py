"""No container that the launcher hands to runc or crun unread can open a GPU, however its config.json is written.

AMD_LAUNCHER_CASES=50000 tries as many files. The runtimes are those of this machine, and of the Debian releases that
AMD_LAUNCHER_RELEASES names.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest

from support.bare_runtime import private_cgroups
from support.box import Box
from support.debian_root import debian_root
from support.installed import engine_program, our_program, require_root
from support.odd_rules import odd_config

pytestmark = pytest.mark.e2e

CASES = int(os.environ.get("AMD_LAUNCHER_CASES", "300"))
SEED = int(os.environ.get("AMD_LAUNCHER_SEED", "1"))
RELEASES = os.environ.get("AMD_LAUNCHER_RELEASES", "").split()
NODE: dict[str, int | str] = {"path": "/dev/dri/renderD128", "major": 226, "minor": 128, "gid": 0}
# Runs a runtime and returns how it ended.
Run = Callable[..., "subprocess.CompletedProcess[str]"]
# Of those that go to Python one in so many is run too, to see that the test can tell.
CONTROL = 10
SAYS_WHO = "#!/bin/sh\necho {}\n"
# A node without a driver answers ENXIO when it may be opened.
OPEN_GPU = """
echo lives
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
            "mounts": [
                # Without these runc makes no container at all.
                {"destination": "/proc", "type": "proc", "source": "proc"},
                {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
            ],
            "linux": {
                "cgroupsPath": f"/amd-launcher-{os.getpid()}",
                "namespaces": [{"type": "pid"}, {"type": "mount"}],
            },
        }
        self.launcher = self._install()
        # How many containers each runtime made, and how many of those opened a GPU.
        self.made: Counter[str] = Counter()
        self.opened: Counter[str] = Counter()

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

    def opens_gpu(self, name: str, run: Run) -> bool:
        """Run a container with a runtime of this name; say whether it opened a GPU."""
        root = self.directory / f"state-{name}"
        said = run("--root", f"{root}", "run", "--bundle", f"{self.directory}", "c1").stdout.split()
        self.made[name] += "lives" in said
        self.opened[name] += "opens" in said
        return "opens" in said


def run_here(program: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [*private_cgroups(program), program, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def runtimes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """Return what runs each runtime, by its name and version: `runc 1.1.5+ds1`."""
    require_root()
    made: list[tuple[str, Run]] = [(name, partial(run_here, engine_program(name))) for name in ("runc", "crun")]
    with ExitStack() as stack:
        for release in RELEASES:
            shared = (f"{tmp_path_factory.getbasetemp()}",)
            box = Box(f"{debian_root(release)}", tmp_path_factory.mktemp(release), [NODE], shared=shared)
            stack.enter_context(box)
            made += [(name, partial(box, name, check=False)) for name in ("runc", "crun")]
        yield {f"{name} {run('--version').stdout.split()[2]}": run for name, run in made}


@pytest.mark.timeout(0 if CASES > 1000 else 600)
def test_a_spec_that_the_launcher_takes_for_harmless_opens_no_gpu(
    tmp_path: Path, rootfs: Path, runtimes: dict[str, Run]
) -> None:
    bench = Bench(tmp_path, rootfs)
    rng = Random(SEED)
    handed_on = 0

    for case in range(CASES):
        text = odd_config(rng, bench.spec)
        bench.write(text)
        if bench.goes_to() == "runc":
            handed_on += 1
            for name, run in runtimes.items():
                assert not bench.opens_gpu(name, run), f"{name}: {text}"
        elif case % CONTROL == 0:
            for name, run in runtimes.items():
                bench.opens_gpu(name, run)

    print(f"{CASES} files of seed {SEED}: {handed_on} handed on")
    print(f"made: {bench.made}; opened by those not handed on: {bench.opened}")
    assert handed_on > CASES // 50
    for name in runtimes:
        assert bench.made[name] > handed_on // 3
        assert bench.opened[name]
