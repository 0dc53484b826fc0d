"""./demo, from its words to what it leaves behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.installed import SEARCH_PATH, require_programs, require_root

pytestmark = [pytest.mark.e2e, pytest.mark.docker]

CHECKOUT = Path(__file__).parents[2]
NEXT = "\nNext: './install' on a machine with AMD GPUs, and 'amd-ctk doctor' there; './check' runs the tests here.\n"
# In the environment of the demo and of every process that it starts.
MARK = "STARTED_BY_TEST_DEMO"


class Demo:
    """The demo, run by this interpreter in a session of its own."""

    def __init__(self, printed: Path, *words: str, obstacle: str = "") -> None:
        self._printed = printed
        self._before = _directories()
        with printed.open("wb") as file:
            self._process = subprocess.Popen(
                # Tests that run under nohup ignore hang-ups, and programs leave that as it is.
                ["env", "--default-signal=HUP", sys.executable, CHECKOUT / "tests-integration/demo.py", *words],
                env={"PATH": SEARCH_PATH, MARK: f"{printed}", "AMD_DEMO_OBSTACLE": obstacle},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def printed(self) -> str:
        return self._printed.read_text()

    def wait_until_it_says(self, words: str) -> None:
        while words not in self.printed:
            time.sleep(0.01)

    def send(self, number: signal.Signals) -> None:
        """Send a signal as a terminal does, to every process in its foreground."""
        os.killpg(self._process.pid, number)

    def wait(self) -> int:
        return self._process.wait()

    def left(self) -> list[str]:
        """Return what it made and is still there, directories and processes."""
        directories = sorted(_directories() - self._before)
        mark = f"{MARK}={self._printed}".encode()
        return directories + [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if mark in _read(path)]


def _directories() -> set[str]:
    return {f"{path}" for path in Path("/tmp").glob("amd-demo-*")}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.fixture
def start_demo(tmp_path):
    """Return a function that starts the demo with some words."""
    require_root()
    require_programs("dockerd", "containerd", "docker", "runc", "busybox")
    return lambda *words: Demo(tmp_path / "printed", *words)


def test_the_demo_shows_what_a_container_sees_and_what_is_refused(start_demo):
    demo = start_demo()

    assert demo.wait() == 0
    assert demo.printed.count("/dev/dri/renderD") == 3
    assert "/tmp/node-226:184 226:184 666 0:0 refused-by-cgroup\n" in demo.printed
    assert "GPU 8 does not exist, this host has GPUs 0-7" in demo.printed
    assert demo.printed.endswith(f"\nStopping the engine and removing what it has written ...\n{NEXT}")
    assert demo.left() == []


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["0", "banana"], "demo: 'banana' "),
        (["0-9"], "demo: GPUs 8-9 do not exist, this host has GPUs 0-7"),
    ],
)
def test_a_wrong_word_is_refused_before_an_engine_starts(start_demo, words, problem):
    demo = start_demo(*words)

    assert demo.wait() == 2
    assert problem in demo.printed
    assert "Docker engine" not in demo.printed
    assert demo.left() == []


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("no AMD GPU", signal.SIGINT),
        ("Starting", signal.SIGHUP),
        ("Making an image", signal.SIGTERM),
        ("$ docker", signal.SIGINT),
        ("$ docker", signal.SIGHUP),
        ("Stopping", signal.SIGINT),
    ],
)
def test_an_interrupted_demo_leaves_nothing(start_demo, moment, number):
    demo = start_demo()
    demo.wait_until_it_says(moment)
    # Somewhere in what follows.
    time.sleep(random.uniform(0, 0.5))

    demo.send(number)

    assert demo.wait() == (0 if moment == "Stopping" else 128 + number)
    assert "Traceback" not in demo.printed
    assert demo.left() == []
