"""All mounts of a container are read, however many there are and whatever they are called."""

from __future__ import annotations

import os
import subprocess

import pytest

from amd_ctk.doctor.facts.inside import read_mount_points

# /proc shows a page of mounts with each read, and these are several.
MOUNTS = r"""
mount -t tmpfs none "$0" && cd "$0" || exit
long=$(printf '%0200d' 0)
for number in $(seq 10 59); do mkdir "$number-$long" && mount -t tmpfs none "$number-$long"; done
form_feed=$(printf 'form\ffeed') && mkdir "$form_feed" && mount -t tmpfs none "$form_feed"
echo ready && exec cat
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts")
def test_all_mount_points_are_found(tmp_path):
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNTS, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        if process.stdout.readline() != b"ready\n":
            pytest.skip("this machine lets nobody mount")
        found = read_mount_points(process.pid)
        process.stdin.close()

    mounted = [path.removeprefix(f"{tmp_path}/") for path in found if path.startswith(f"{tmp_path}/")]
    assert mounted == [*(f"{number}-{0:0200d}" for number in range(10, 60)), "form\ffeed"]
