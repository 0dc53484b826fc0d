"""The line for sudo in the guide lets a deputy manage the queue and drains, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from amd_gpu_tracker.face.tracker import Tracker
from amdgpu_simulator import build_host
from support.documentation import read_page
from support.installed import our_program, require_root

pytestmark = [pytest.mark.e2e]

LINE = re.search(r"`(deputy ALL = .*)`", read_page("docs/how-to/share.md"))[1]
# An account that every system has.
DEPUTY = "nobody"


@pytest.fixture
def deputy(tmp_path):
    """Return a function that runs a command with sudo as the deputy types it, on a host with four GPUs."""
    require_root()
    if not shutil.which("sudo"):
        pytest.skip("needs sudo")
    host = build_host(tmp_path / "host", "mi210-4")
    Tracker(host).enable()
    program, rule = tmp_path / "amd-ctk", tmp_path / "sudoers.d/gpus"
    program.write_text(f'#!/bin/sh\nAMD_CTK_HOST_ROOT={host.root} exec {our_program("amd-ctk")} "$@"\n')
    program.chmod(0o755)
    rule.parent.mkdir(mode=0o750)
    # A test types no password.
    line = LINE.replace("deputy ALL = ", f"{DEPUTY} ALL = NOPASSWD: ").replace("/usr/bin/amd-ctk", str(program))
    rule.write_text(f"{line}\n")
    rule.chmod(0o440)

    def run(words):
        typed = f"setpriv --reuid={DEPUTY} --regid=65534 --clear-groups sudo -n {words}".replace(
            "amd-ctk", str(program)
        )
        script = f"mount --bind {rule.parent} /etc/sudoers.d && {typed}"
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, check=False, cwd="/"
        )

    return run


def test_a_deputy_drains_a_gpu(deputy):
    assert deputy("amd-ctk gpu-tracker drain 2 --reason 'fan swap'").stdout == "GPUs [2] are drained\n"
    assert deputy("amd-ctk gpu-tracker undrain 2").stdout == "GPUs [2] are given out again\n"


def test_a_deputy_ends_and_keeps_the_jobs_of_others(deputy):
    assert "\nthis user has no reservation or job train" in deputy("amd-ctk end train --user=1000").stderr
    assert "\nthis user has no reservation or job train" in deputy("amd-ctk keep train 2h --user=1000").stderr


@pytest.mark.parametrize(
    "words",
    ["amd-ctk users allow everyone", "amd-ctk --host-root=/ end train", "amd-ctk gpu-tracker reset --force", "sh"],
)
def test_a_deputy_does_nothing_else_as_root(deputy, words):
    answer = deputy(words)

    assert answer.returncode == 1
    assert answer.stderr.startswith("sudo: a password is required")
