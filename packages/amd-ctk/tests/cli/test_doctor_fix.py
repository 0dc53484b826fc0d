"""amd-ctk doctor --fix changes what is safe to change, shows it before, and asks."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ALONE = {"PATH": "/nowhere"}
CONFIG = "etc/amd-container-toolkit/config.toml"


@pytest.fixture
def stale(host, amd_ctk):
    """Return the CDI spec of a host, which names a wrong device."""
    spec = Path(host().root) / "etc/cdi/amd.json"
    amd_ctk("cdi", "generate")
    content = json.loads(spec.read_text())
    content["devices"][0]["containerEdits"]["deviceNodes"][0]["minor"] = 77
    spec.write_text(json.dumps(content, indent=2))
    return spec


def test_nothing_is_changed_before_somebody_agrees(stale, amd_ctk):
    before = stale.read_bytes()

    answer = amd_ctk("doctor", "--only=cdi", "--fix", **ALONE)

    assert (answer.returncode, stale.read_bytes()) == (1, before)
    assert answer.stderr.startswith("cdi: refresh /etc/cdi/amd.json\n--- /etc/cdi/amd.json\n+++ /etc/cdi/amd.json\n")
    assert '-              "minor": 77' in answer.stderr or '"minor": 77' in answer.stderr
    assert answer.stderr.endswith("Not changed: add --yes\n")


def test_without_standard_input_nobody_agrees(stale, program, tmp_path):
    words = ["sh", "-c", 'exec "$@" <&-', "sh", program, "doctor", "--only=cdi", "--fix"]
    environment = {"PATH": os.environ["PATH"], "AMD_CTK_HOST_ROOT": f"{tmp_path}/host"}

    answer = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)

    assert answer.stderr.endswith("Not changed: add --yes\n")


def test_a_stale_spec_is_refreshed(stale, amd_ctk):
    answer = amd_ctk("doctor", "--only=cdi", "--fix", "--yes", **ALONE)

    assert answer.returncode == 0
    assert answer.stderr.endswith("Done\n")
    assert answer.stdout == (
        "cdi  ok           /etc/cdi/amd.json matches this host\n1 check: 1 ok, 0 bad, 0 notes, 0 not checked\n"
    )


def test_changed_settings_are_compiled(host, amd_ctk):
    config = Path(host().root) / CONFIG
    config.parent.mkdir()
    config.write_text('device-mode = "host"\n')

    answer = amd_ctk("doctor", "--only=settings", "--fix", "--yes", **ALONE)

    assert answer.stderr == "settings: compile config.toml for container starts\nDone\n"
    assert answer.stdout.startswith("settings  ok ")


def test_a_check_that_the_user_leaves_out_is_not_fixed(stale, amd_ctk):
    before = stale.read_bytes()

    answer = amd_ctk("doctor", "--only=kfd", "--fix", "--yes", **ALONE)

    assert answer.stderr == "--fix has nothing to change\n"
    assert stale.read_bytes() == before


def test_a_spec_is_not_refreshed_while_nodes_are_missing(stale, amd_ctk, host, tmp_path):
    (tmp_path / "host/dev/kfd").unlink()
    before = stale.read_bytes()

    answer = amd_ctk("doctor", "--only=cdi,nodes", "--fix", "--yes", **ALONE)

    assert answer.stderr == "--fix has nothing to change\n"
    assert stale.read_bytes() == before


def test_options_that_cannot_be_read_do_not_end_doctor(stale, amd_ctk, tmp_path):
    for path in (tmp_path / "host/var/lib/amd-container-toolkit").rglob("*.json"):
        path.write_text("[")

    answer = amd_ctk("doctor", "--only=cdi", "--fix", "--yes", **ALONE)

    assert (answer.returncode, answer.stderr) == (1, "--fix has nothing to change\n")
    assert answer.stdout.startswith("cdi  bad ")


def test_a_fix_that_cannot_be_written_is_reported(stale, limited_amd_ctk):
    stale.parent.chmod(0o555)

    answer = limited_amd_ctk("doctor", "--only=cdi", "--fix", "--yes")

    assert answer.returncode == 1
    assert "\nNot changed: failed to write CDI spec: " in answer.stderr
    assert answer.stdout.startswith("cdi  bad ")
