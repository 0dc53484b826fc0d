"""The systemd units and the udev rule, as systemd and udev themselves judge them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from support.installed import our_program

PACKAGING = Path(__file__).parents[2] / "packaging"
UNITS = sorted(path.name for path in (PACKAGING / "systemd").iterdir())
RULES = PACKAGING / "udev/60-amd-cdi-refresh.rules"


@pytest.fixture
def installed_units(tmp_path):
    """Return the units as they would be on a machine whose amd-ctk is the one under test."""
    for name in UNITS:
        text = (PACKAGING / "systemd" / name).read_text()
        assert "/usr/bin/amd-ctk " in text or name.endswith((".timer", ".socket"))
        # Of a unit for each port systemd judges one; %i in it is the port.
        judged = tmp_path / name.replace("@", "@505")
        judged.write_text(text.replace("/usr/bin/amd-ctk", str(our_program("amd-ctk"))))
    return [tmp_path / name.replace("@", "@505") for name in UNITS]


def test_systemd_finds_nothing_wrong_with_the_units(installed_units):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")

    # The manual page is installed with the package.
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *installed_units], capture_output=True, text=True, check=False
    )

    assert (verified.returncode, verified.stdout + verified.stderr) == (0, "")


def test_udev_finds_nothing_wrong_with_the_rule():
    known = (
        subprocess.run(["udevadm", "verify", "--help"], capture_output=True, check=False) if _has_udevadm() else None
    )
    if known is None or known.returncode != 0:
        pytest.skip("no udevadm of 254 or later, which is the first that can verify rules; nox -s engines has one")

    verified = subprocess.run(["udevadm", "verify", RULES], capture_output=True, text=True, check=False)

    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_the_rule_starts_units_that_exist():
    started = {word for line in RULES.read_text().splitlines() for word in line.replace('"', " ").split()}

    assert {word for word in started if word.endswith(".service")} == {
        "amd-cdi-refresh.service",
        "amd-cdi-watch.service",
    }
    assert UNITS == [
        "amd-cdi-refresh.service",
        "amd-cdi-watch.service",
        "amd-ctk-images@.service",
        "amd-ctk-images@.socket",
        "amd-gpu-tracker.service",
        "amd-gpu-tracker.socket",
        "amd-gpu-usage.service",
        "amd-gpu-usage.timer",
        "amd-swarm-prune.service",
        "amd-swarm-prune.timer",
    ]


def _has_udevadm():
    return shutil.which("udevadm") is not None
