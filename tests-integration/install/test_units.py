"""The systemd units under their own options, by the systemd of three Debian releases: 247, 252 and 257."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from install.root import build_root
from support.installed import require_root
from support.system import System

pytestmark = [pytest.mark.e2e, pytest.mark.install]

UNITS = sorted((Path(__file__).parents[2] / "packaging/systemd").glob("amd-cdi-*.service"))
# Ubuntu 22.04 has systemd 249; that of Debian 11 is as strict and can be had wherever Debian can.
SYSTEMD_BY_SUITE = {"bullseye": "247", "bookworm": "252", "trixie": "257"}
# Nothing is behind these numbers here: the kernel says so, unless the device cgroup refuses before.
NODES = ("/dev/kfd", "/dev/dri/renderD128")
MAKE_NODES = "mkdir -p /dev/dri; mknod -m 666 /dev/kfd c 234 0; mknod -m 666 /dev/dri/renderD128 c 226 128"
# Everything else in the unit stays in force.
INSTEAD = """
[Unit]
ConditionPathExists=
[Service]
Type=oneshot
Restart=no
ExecStart=
ExecStart=-/bin/sh -c '{script}'
StandardOutput=file:/run/said
StandardError=file:/run/said
"""


@pytest.fixture(scope="module", params=SYSTEMD_BY_SUITE)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Return a system with the units, and with nodes that look like those of a GPU."""
    require_root()
    started = System(tmp_path_factory.mktemp(request.param) / "system", build_root(request.param))
    assert started.run("systemctl --version").startswith(f"systemd {SYSTEMD_BY_SUITE[request.param]}")
    for unit in UNITS:
        started.write(f"/etc/systemd/system/{unit.name}", unit.read_text(encoding="utf-8"))
    started.run(MAKE_NODES)
    yield started
    started.stop()


def run_under(system: System, unit: str, script: str) -> str:
    """Return what a line of shell says that runs instead of the unit's own program."""
    system.write(f"/etc/systemd/system/{unit}.d/instead.conf", INSTEAD.format(script=script))
    system.run(f"rm -f /run/said; systemctl daemon-reload; systemctl start {unit}; systemctl stop {unit}")
    return system.run("cat /run/said")


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_a_unit_may_open_the_nodes_of_gpus(system: System, unit: str) -> None:
    said = run_under(system, unit, f"cat {' '.join(NODES)}")

    assert said == "".join(f"cat: {node}: No such device or address\n" for node in NODES)


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_a_unit_writes_specs_and_its_own_state(system: System, unit: str) -> None:
    directories = "/etc/cdi /run/cdi /var/lib/amd-container-toolkit/cdi /srv/engine"
    system.run(f"mkdir -p {directories}")

    said = run_under(system, unit, f"for d in {directories}; do echo spec >$d/amd.json && chown 1:1 $d/amd.json; done")

    assert said == ""
    assert system.run(f"cd / && cat {' '.join(f'{directory}/amd.json' for directory in directories.split())}") == (
        "spec\n" * 4
    )


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_a_unit_changes_no_program_and_no_clock(system: System, unit: str) -> None:
    said = run_under(system, unit, "touch /usr/bin/new; date --set=2001-01-01 >/dev/null; touch /tmp/seen")

    assert said == (
        "touch: cannot touch '/usr/bin/new': Read-only file system\ndate: cannot set date: Operation not permitted\n"
    )
    assert system.run("ls /usr/bin/new /tmp/seen 2>&1", check=False).count("No such file") == 2
