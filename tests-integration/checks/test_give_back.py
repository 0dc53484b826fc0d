"""What ./install and ./demo give back of a user's clone, also when a signal ends them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
USER = 1000

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")


@pytest.fixture
def clone(tmp_path):
    """Return a clone of a user, with what these scripts need."""
    directory = tmp_path / "clone"
    shutil.copytree(CHECKOUT / ".ci", directory / ".ci")
    for name in ("install", "demo"):
        shutil.copy(CHECKOUT / name, directory / name)
    os.chown(directory, USER, USER)
    return directory


def write(path: Path, text: str = "", *, mode: int = 0o644) -> Path:
    """Write a file, as root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def owner(path: Path) -> int:
    """Return the user that a file belongs to, and not what it leads to."""
    return path.lstat().st_uid


def test_only_files_that_root_wrote_are_given_back(clone, tmp_path):
    older = write(clone / ".nox/older")
    stamp = write(tmp_path / "stamp")
    os.utime(older, (0, 0))
    os.utime(stamp, (1_000_000_000, 1_000_000_000))
    written = [
        *(write(clone / ".nox/demo/bin/python"), clone / ".nox/demo", write(clone / ".venv/ready")),
        *(write(clone / ".git/index"), write(clone / "packaging/__pycache__/stage.pyc")),
    ]
    elsewhere = write(tmp_path / "elsewhere")
    (clone / ".nox/soft").symlink_to(elsewhere)
    os.link(elsewhere, clone / ".nox/hard")
    own = write(clone / "secret", mode=0o4755)

    subprocess.run([".ci/give-back", stamp], cwd=clone, env={**os.environ, "SUDO_UID": str(USER)}, check=True)

    assert {owner(path) for path in written} == {USER}
    assert {owner(path) for path in (older, own, elsewhere, clone / ".nox/soft", clone / "install")} == {0}
    assert own.stat().st_mode & 0o7777 == 0o4755


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("script", ["install", "demo"])
def test_a_signal_that_ends_them_gives_back_too(clone, tmp_path, script, number):
    waiting = f"#!/bin/sh\n: >{tmp_path}/waits\nexec sleep 600\n"
    write(clone / ".ci/prepare", waiting, mode=0o755)
    write(clone / ".nox/packages-builder/ready")
    write(clone / ".nox/packages-builder/bin/pip", waiting, mode=0o755)
    write(tmp_path / "bin/apt-get", "#!/bin/sh\n", mode=0o755)
    environment = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "SUDO_UID": str(USER), "TMPDIR": str(tmp_path)}

    # Under nohup SIGHUP is ignored, and a shell cannot change that.
    command = ["env", "--default-signal", f"./{script}"]
    process = subprocess.Popen(command, cwd=clone, env=environment, stdout=subprocess.DEVNULL, start_new_session=True)
    while not (tmp_path / "waits").exists():
        assert process.poll() is None
        time.sleep(0.01)
    # As a terminal does.
    os.killpg(process.pid, number)

    assert process.wait() == 128 + number
    assert owner(clone / ".nox/packages-builder/ready") == USER
    assert not list(tmp_path.glob("tmp.*"))
