"""A few rounds of what `nox -s fuzz` plays for as long as it is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.installed import require_root

pytestmark = pytest.mark.e2e

CAMPAIGN = Path(__file__).parent / "campaign.py"


def test_no_program_ends_in_a_trace_for_a_changed_input(tmp_path):
    require_root()

    played = subprocess.run(
        [sys.executable, CAMPAIGN, "--rounds=130", "--minutes=9"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (played.returncode, played.stderr) == (0, "")
    assert played.stdout == (
        "corpus: 251 calls\n"
        "seed 1: archive 10, cdi 10, cdi-yaml 10, daemon.json 10, explained 10, history 10, image 10, leases 10,"
        " requests 10, settings 10, specs 10, state 10, sysfs 10\n"
        "130 rounds, 0 faults\n"
    )
