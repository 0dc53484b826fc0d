"""The script of the action for forges, on a stand-in for the image of a runner: what it runs, and as whom."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ACTION = Path(__file__).parents[1] / "action"
PACKAGES = ACTION.parents[1]
INSTALLS = f"python3 -m pip install --quiet {PACKAGES}/amdgpu-discovery[cli] {PACKAGES}/amdgpu-simulator pytest\n"


@pytest.fixture
def prepare(tmp_path):
    """Return a function that runs the script where the kernel's restriction is this, and returns what it ran."""
    said = tmp_path / "said"
    for name in ("sysctl", "sudo", "python3", "id"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(
            "#!/bin/sh\n"
            'case "$0 $*" in\n'
            "*/id*) echo $USER_ID; exit ;;\n"
            '*"sysctl -n "*) [ -n "$RESTRICTION" ] && echo "$RESTRICTION"; exit ;;\n'
            "*python3*-c*) exit ;;\n"
            "esac\n"
            f'echo "${{0##*/}} $*" >>{said}\n'
        )
        program.chmod(0o755)

    def run(*, restriction, uid):
        path = f"{tmp_path}/bin:{os.environ['PATH']}"
        environment = {"PATH": path, "RESTRICTION": restriction, "USER_ID": uid}
        subprocess.run(["sh", os.fspath(ACTION / "prepare")], env=environment, check=True)
        return said.read_text()

    return run


def test_where_apparmor_forbids_namespaces_they_are_allowed_with_sudo(prepare):
    lifts = "sudo sysctl --quiet kernel.apparmor_restrict_unprivileged_userns=0\n"

    assert prepare(restriction="1", uid="1001") == lifts + INSTALLS


def test_root_of_a_container_needs_no_sudo(prepare):
    lifts = "sysctl --quiet kernel.apparmor_restrict_unprivileged_userns=0\n"

    assert prepare(restriction="1", uid="0") == lifts + INSTALLS


@pytest.mark.parametrize("restriction", ["0", ""])
def test_where_nothing_forbids_them_no_setting_is_changed(prepare, restriction):
    assert prepare(restriction=restriction, uid="1001") == INSTALLS
