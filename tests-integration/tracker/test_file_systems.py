"""The runtime on file systems that take nothing: a read-only /var, a /run that is full."""

from __future__ import annotations

import subprocess

import pytest

from support.installed import require_root

# root writes everywhere, so the file systems themselves must refuse.
pytestmark = [pytest.mark.e2e]

READ_ONLY_VAR = 'mount --bind "$1/var" "$1/var"; mount -o remount,bind,ro "$1/var"; shift; exec "$@"'
FULL_RUN = """
mount -t tmpfs -o size=16k tmpfs "$1/run"
mkdir -p "$1/run/amd-container-toolkit/leases"
cat /dev/zero > "$1/run/full" 2> "$1/run/amd-container-toolkit/gpu-tracker.lock" || true
shift
exec "$@"
"""


@pytest.fixture
def create_on(engine):
    """Return a function that creates a container in a mount namespace that a script prepared."""
    require_root()

    def create(script):
        bundle = engine.prepare("c1", "0")
        words = [
            engine.amd,
            "--root",
            engine.root,
            "create",
            "--bundle",
            bundle,
            "--pid-file",
            bundle / "init.pid",
            "c1",
        ]
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", script, "sh", engine.environment["AMD_CTK_HOST_ROOT"], *words],
            env=engine.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return create


@pytest.mark.parametrize("switch", ["enable", "disable"])
def test_a_read_only_var_keeps_no_container_from_its_gpus(engine, create_on, switch):
    engine.ctk("gpu-tracker", "enable")
    engine.ctk("gpu-tracker", switch)

    assert create_on(READ_ONLY_VAR).stderr == ""

    assert engine.leases() == (["c1"] if switch == "enable" else [])


def test_a_full_run_refuses_the_container_and_says_so(engine, create_on):
    engine.ctk("gpu-tracker", "enable")

    refused = create_on(FULL_RUN)

    assert refused.returncode == 5
    assert refused.stderr.startswith("amd-container-runtime: ")
    assert refused.stderr.endswith(" cannot be written: the disk is full\n")
    assert not (engine.root / "c1").exists()
