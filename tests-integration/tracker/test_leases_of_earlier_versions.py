"""The code of a commit before leases had a kind rewrites leases that have one: both read them as what they are.

The unit tests of the tracker (book/test_kinds.py) have what it writes as a file. This runs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from amd_gpu_tracker.book.lease import Lease, ProcessId, format_lease, parse_lease

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "715338e6"
PARTS = ("packages/amd-gpu-tracker/src", "packages/amdgpu-discovery/src")
REWRITE = """
import sys
from amd_gpu_tracker.records.lease import format_lease, parse_lease
sys.stdout.buffer.write(format_lease(parse_lease(sys.stdin.buffer.read())))
"""
# With the time of its end, as the earlier code keeps a container for its restart.
KEEP = REWRITE.replace("read())", "read()).replace(until=10015.0)")

FIRST, PROCESS = ProcessId(pid=1, start=3), ProcessId(pid=4021, start=912345)
OF_MACHINE = {"boot_offset": 1794990000.25, "boot_id": "5e0bc97a", "namespace": "pid:[4026531836]"}
WRITTEN = {"gpus": ("0000:03:00.0/0",), "since": 1795000000.5, **OF_MACHINE}
LEASES = {
    "container": Lease(container_id="9f2c", ways=("env",), bundle="/run/b/9f2c", creator=PROCESS, **WRITTEN),
    "kept": Lease(container_id="9f2c", ways=("env",), bundle="/b/9f2c", creator=FIRST, until=10015.0, **WRITTEN),
    "job": Lease(container_id="1000/train", ways=("api",), limit=13600.0, creator=PROCESS, **WRITTEN),
    "reservation": Lease(container_id="1000/night", ways=("api",), until=13600.0, creator=FIRST, **WRITTEN),
    "ending": Lease(
        container_id="1000/train.ending",
        ways=("api",),
        until=10090.0,
        reservation="1000/train",
        creator=FIRST,
        **WRITTEN,
    ),
}


@pytest.fixture(scope="module")
def run_earlier(tmp_path_factory):
    """Return a function that runs a script with the earlier code on a lease, and returns its output."""
    directory = tmp_path_factory.mktemp("earlier")
    answer = subprocess.run(["git", "-C", ROOT, "archive", COMMIT, *PARTS], capture_output=True, check=False)
    if answer.returncode:
        pytest.skip(f"needs the history of this repository, with commit {COMMIT}")
    subprocess.run(["tar", "-x", "-C", directory], input=answer.stdout, check=True)
    environment = {"PYTHONPATH": ":".join(str(directory / part) for part in PARTS)}

    def run(script, content):
        command = [sys.executable, "-S", "-c", script]
        return subprocess.run(command, input=content, env=environment, stdout=subprocess.PIPE, check=True).stdout

    return run


@pytest.mark.parametrize("kind", LEASES)
def test_a_lease_that_the_earlier_code_writes_again_is_the_same(run_earlier, kind):
    written = format_lease(LEASES[kind])

    assert run_earlier(REWRITE, written) == written
    assert parse_lease(run_earlier(REWRITE, written)) == LEASES[kind]
    assert json.loads(written)["kind"] == LEASES[kind].kind == kind


def test_a_container_that_the_earlier_code_keeps_is_kept(run_earlier):
    rewritten = run_earlier(KEEP, format_lease(LEASES["container"]))

    assert json.loads(rewritten)["kind"] == "container"
    assert parse_lease(rewritten).kind == "kept"
