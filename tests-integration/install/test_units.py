"""The systemd units under their own options, by the systemd of three Debian releases: 247, 252 and 257."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from install.root import build_root
from support.installed import require_root
from support.system import System

pytestmark = [pytest.mark.e2e, pytest.mark.install]

SHIPPED = Path(__file__).parents[2] / "packaging/systemd"
UNITS = sorted(SHIPPED.glob("amd-cdi-*.service"))
# Every path that the program of a unit may write, as docs/reference/files.md has it.
OWN_STATE = "/var/lib/amd-container-toolkit"
OWN_RUN = "/run/amd-container-toolkit"
WRITES = {
    "amd-cdi-refresh.service": ("/etc/cdi", "/run/cdi", f"{OWN_STATE}/cdi", OWN_STATE, OWN_RUN, "/srv/engine"),
    "amd-cdi-watch.service": ("/etc/cdi", "/run/cdi", f"{OWN_STATE}/cdi", OWN_STATE, OWN_RUN, "/srv/engine"),
    # Leases, the policy where GPUs are others than before, drains, and the history; and the lists of nodes.
    "amd-gpu-tracker.service": (
        *(OWN_STATE, f"{OWN_STATE}/history", f"{OWN_STATE}/history/open"),
        *(OWN_RUN, f"{OWN_RUN}/leases", f"{OWN_RUN}/waiting", f"{OWN_RUN}/ending", "/dev/dri"),
    ),
    "amd-gpu-usage.service": (
        *(OWN_STATE, f"{OWN_STATE}/history", f"{OWN_STATE}/history/open", OWN_RUN, f"{OWN_RUN}/leases"),
        "/var/lib/prometheus/node-exporter",
    ),
    # They ask Docker and a registry, and write no file.
    "amd-swarm-prune.service": (),
    "amd-ctk-images@.service": (),
}
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
ExecStart=-/bin/sh /run/instead
StandardOutput=file:/run/said
StandardError=file:/run/said
"""


@pytest.fixture(scope="module", params=SYSTEMD_BY_SUITE)
def system(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Return a system with the units, and with nodes that look like those of a GPU."""
    require_root()
    started = System(tmp_path_factory.mktemp(request.param) / "system", build_root(request.param))
    assert started.run("systemctl --version").startswith(f"systemd {SYSTEMD_BY_SUITE[request.param]}")
    for unit in SHIPPED.glob("*.service"):
        # With the socket, or Docker, that starts it or that it asks, there is nothing to try.
        text = re.sub(r"^Requi(res|site)=.*\n", "", unit.read_text(encoding="utf-8"), flags=re.MULTILINE)
        started.write(f"/etc/systemd/system/{unit.name}", text)
    started.run(MAKE_NODES)
    yield started
    started.stop()


def run_under(system: System, unit: str, script: str) -> str:
    """Return what a line of shell says that runs instead of the unit's own program."""
    system.write("/run/instead", script)
    system.write(f"/etc/systemd/system/{unit}.d/instead.conf", INSTEAD)
    system.run(f"rm -f /run/said; systemctl daemon-reload; systemctl start {unit}; systemctl stop {unit}")
    return system.run("cat /run/said")


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_a_unit_may_open_the_nodes_of_gpus(system: System, unit: str) -> None:
    said = run_under(system, unit, f"cat {' '.join(NODES)}")

    assert said == "".join(f"cat: {node}: No such device or address\n" for node in NODES)


def test_every_unit_is_held_against_what_it_writes():
    assert sorted(WRITES) == sorted(unit.name for unit in SHIPPED.glob("*.service"))


@pytest.mark.parametrize("unit", [unit for unit, directories in WRITES.items() if directories])
def test_a_unit_replaces_files_wherever_its_program_may_write(system: System, unit: str) -> None:
    directories = " ".join(WRITES[unit])
    system.run(f"mkdir -p {directories}")

    said = run_under(system, unit, f"for d in {directories}; do echo new >$d/x.1.tmp && mv $d/x.1.tmp $d/x; done")

    assert said == ""
    assert system.run(f"for d in {directories}; do cat $d/x && rm $d/x; done") == "new\n" * len(WRITES[unit])


def test_the_service_makes_the_directory_of_its_state_for_all_to_read(system: System) -> None:
    system.run(f"rm -rf {OWN_STATE}; mkdir -p {OWN_RUN}")

    assert run_under(system, "amd-gpu-tracker.service", f"stat -c %a:%U:%G {OWN_STATE}") == "755:root:root\n"


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_a_unit_gives_a_spec_to_another_owner(system: System, unit: str) -> None:
    directories = "/etc/cdi /run/cdi /srv/engine"
    system.run(f"mkdir -p {directories}")

    assert run_under(system, unit, f"for d in {directories}; do echo spec >$d/y && chown 1:1 $d/y; done") == ""


@pytest.mark.parametrize("unit", [unit.name for unit in UNITS])
def test_a_unit_changes_no_program_and_no_clock(system: System, unit: str) -> None:
    said = run_under(system, unit, "touch /usr/bin/new; date --set=2001-01-01 >/dev/null; touch /tmp/seen")

    assert said == (
        "touch: cannot touch '/usr/bin/new': Read-only file system\ndate: cannot set date: Operation not permitted\n"
    )
    assert system.run("ls /usr/bin/new /tmp/seen 2>&1", check=False).count("No such file") == 2
