"""./demo where no container can be started: what it shows instead, to any user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[1] / "demo.py"
SHOWN = """\
No container can be started here: the moon is full.
In a container started with --privileged, and on a virtual machine, ./demo starts real containers.
Shown instead: all but runc, for real, on a SIMULATED server with eight MI300X. In the place of runc
stands a script that makes a process that sleeps, and no container:
tests-integration/support/stand_in_runc.py.

The engine starts a container with AMD_VISIBLE_DEVICES=0-2, and calls the runtime:
$ amd-container-runtime create --bundle demo demo
  config.json                 before   after
  device nodes                     0       7
  rules of the device cgroup       1       8
  groups                           0       0
  hooks                            0       0
  /dev/dri/card1 /dev/dri/renderD128 /dev/dri/card9 /dev/dri/renderD136 /dev/dri/card17 /dev/dri/renderD144 /dev/kfd

The engine starts a container with AMD_VISIBLE_DEVICES=8, and calls the runtime:
$ amd-container-runtime create --bundle beyond beyond
refused, in the log that the engine shows: amd-container-runtime: AMD_VISIBLE_DEVICES=8: GPU 8 does not exist, \
this host has GPUs 0-7 ('amd-ctk gpu list' shows them)

The same, asked before anything starts:
$ amd-ctk explain docker run --runtime=amd -e AMD_VISIBLE_DEVICES=0-2 ubuntu
AMD_VISIBLE_DEVICES=0-2  GPUs 0-2
GPU  in the container            HIP  unique id             on the host
0    /dev/dri/renderD128 card1   0    GPU-e3aa140f9a5f9e31  0000:05:00.0
1    /dev/dri/renderD136 card9   1    GPU-2250f807caf2231a  0000:27:00.0
2    /dev/dri/renderD144 card17  2    GPU-d802d560d4ba851d  0000:47:00.0

For Podman, and for Docker with --device amd.com/gpu=0, a CDI spec:
$ amd-ctk cdi generate
Generated CDI spec: /etc/cdi/amd.json
$ amd-ctk cdi validate
Validating CDI spec: /etc/cdi/amd.json
CDI spec is valid

A GPU for one container at a time:
$ amd-ctk gpu-tracker 0 exclusive
GPUs [0] have been made exclusive
$ amd-container-runtime create --bundle train train
$ amd-container-runtime create --bundle eval eval
refused, in the log that the engine shows: amd-container-runtime: GPUs [0] are exclusive and already in use
GPU 0 is in use by container train

What is wrong with this server?
$ amd-ctk doctor | tail -n 1
"""
NEXT = "Next: './install' on a machine with AMD GPUs, and 'amd-ctk doctor' there; './check' runs the tests here."
MARK = "STARTED_BY_TEST_DEMO_WITHOUT_CONTAINERS"


def show(tmp_path, *words, obstacle="the moon is full", path=os.environ["PATH"]):
    """Run the demo and return its exit code and output; fail if it leaves a process."""
    environment = {"PATH": path, "AMD_DEMO_OBSTACLE": obstacle, MARK: f"{tmp_path}"}
    ended = subprocess.run([sys.executable, DEMO, *words], env=environment, capture_output=True, text=True, check=False)
    mark = f"{MARK}={tmp_path}".encode()
    assert [path for path in Path("/proc").glob("[0-9]*/environ") if mark in read(path)] == []
    return ended.returncode, ended.stdout + ended.stderr


def read(path):
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_all_but_the_container_is_shown_and_the_stand_in_is_named(tmp_path):
    code, printed = show(tmp_path)

    assert code == 0
    assert printed.startswith(SHOWN)
    doctor, empty, last = printed.removeprefix(SHOWN).splitlines()
    assert " checks: " in doctor
    assert (empty, last) == ("", NEXT)


def test_each_request_is_shown(tmp_path):
    code, printed = show(tmp_path, "7", "none")

    assert code == 0
    assert "  device nodes                     0       3\n" in printed
    assert "  device nodes                     0       0\n" in printed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root starts an engine")
def test_an_engine_that_does_not_start_is_named_in_place_of_a_traceback(tmp_path):
    for name in ("unshare", "containerd"):
        (tmp_path / name).write_text("#!/bin/sh\necho the disk is full >&2\nexit 1\n")
        (tmp_path / name).chmod(0o755)

    code, printed = show(tmp_path, obstacle="", path=f"{tmp_path}:{os.environ['PATH']}")

    assert code == 0
    assert "\nNo container can be started here: the engine does not start (the disk is full).\n" in printed
    assert "GPU 0 is in use by container train" in printed
    assert "Traceback" not in printed


@pytest.mark.parametrize(
    ("word", "problem"), [("banana", "demo: 'banana' "), ("9", "demo: GPU 9 does not exist, this host has GPUs 0-7")]
)
def test_a_wrong_word_is_refused_first(tmp_path, word, problem):
    code, printed = show(tmp_path, "0", word)

    assert code == 2
    assert problem in printed
    assert "$ amd" not in printed
