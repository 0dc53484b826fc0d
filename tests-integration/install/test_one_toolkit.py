"""While packages are upgraded and downgraded, every program is of one version; with packages as before many are not.

In the versions of these tests every module and launcher checks that what it uses is of its own version.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from install.conftest import Machine
from support.box import Box
from support.checked_version import checked_debs
from support.upgraded import BY_NAME, NEEDED_FIRST, Server

pytestmark = [pytest.mark.e2e, pytest.mark.install]

VERSIONS = ("9.1", "9.2")
ORDERS = (NEEDED_FIRST, NEEDED_FIRST[::-1], BY_NAME)
STARTS = 200
POWER_CUTS = 10
PROGRAMS = ("amd-ctk version", "amd-gpu-tracker --help", "amd-container-runtime --version", "amd-ctk doctor --help")
# A service that starts a container again and again.
ALWAYS = """[Unit]
StartLimitIntervalSec=0
[Service]
Environment=AMD_CTK_HOST_ROOT=/run/shared/host
ExecStart=/usr/bin/amd-container-runtime run --bundle /root/always always
Restart=always
RestartSec=10ms
"""
GENERATIONS = "/usr/lib/amd-container-toolkit/generations"
AT_BOOT = "/usr/lib/tmpfiles.d/amd-container-toolkit.conf"
NODE: dict[str, int | str] = {"path": "/dev/kfd", "major": 234, "minor": 0, "gid": 0}


@pytest.fixture(scope="module")
def checked(debs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Return both versions."""
    directory = tmp_path_factory.mktemp("checked")
    return {version: checked_debs(debs, directory / version, version=version) for version in VERSIONS}


@pytest.fixture
def server(machine: Machine, checked: dict[str, list[Path]]) -> Server:
    """Return a Debian system that has the first version, and the debs of both."""
    server = Server(machine.run, machine.system.shared, "/run/shared")
    for version, debs in checked.items():
        server.offer(debs, version)
    machine.apt("install python3")
    server.dpkg("9.1")
    return server


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Box("/", tmp_path / "box", [NODE]) as box:
        yield box


def others(version: str) -> str:
    return VERSIONS[version == VERSIONS[0]]


def test_no_program_is_of_two_versions_while_apt_and_dpkg_bring_others(machine: Machine, server: Server) -> None:
    server.begin()
    server.run("python3 /run/shared/traffic.py /run/shared bundle always sleep 0.3")
    machine.write("/run/systemd/system/always.service", ALWAYS)
    server.run("systemctl daemon-reload; systemctl start always")

    version = "9.1"
    orders = [None, None, *ORDERS]
    while orders or server.starts < STARTS:
        order = orders.pop(0) if orders else None
        version = others(version)
        if order:
            server.dpkg(version, order)
        else:
            machine.apt(f"install --allow-downgrades {server.files(version)}")
        server.wait_for_starts(5)

    seen = server.end()
    assert seen["failures"] == []
    assert seen["done"]["start"] >= STARTS
    assert seen["done"]["hook"] >= 2 * STARTS
    assert min(seen["done"].values()) >= 20
    restarts = int(server.run("systemctl show --property=NRestarts --value always"))
    # Before its end, which may come in the middle of a start.
    said = server.run("journalctl --unit=always --output=cat; systemctl stop always")
    assert restarts >= 20
    assert "code=exited" not in said
    # Of the first version were the container, the job and those who waited for its GPU.
    assert "kept" not in server.end_what_was_before()


def test_packages_that_come_one_by_one_serve_when_the_last_is_there(server: Server) -> None:
    """In whatever order: whoever lets the new version serve lets the service go on with it."""
    server.run("systemctl start amd-gpu-tracker.service")
    which = "cat /usr/bin/amd-ctk; systemctl show --property=MainPID amd-gpu-tracker.service"
    before = server.run(which)

    # The last one has no service.
    for name in (
        *("amd-ctk", "amd-gpu-tracker", "amd-container-toolkit", "amdgpu-discovery", "amd-device-spec"),
        *("amd-gpu-images", "amd-gpu-sharing", "amdgpu-simulator"),
    ):
        server.run(f"dpkg --force-depends --force-unsafe-io --install {server.files('9.2', [name])}")
        server.run("amd-gpu-tracker --help; amd-container-runtime --version")
        assert server.run(which).splitlines()[:-1] == before.splitlines()[:-1]
    pid = server.run(which).splitlines()[-1]
    server.dpkg("9.2", ["amd-container-runtime"])

    after = server.run(which)
    assert 'toolkit_build = "9.2"' in after
    assert after.splitlines()[-1] not in (pid, "MainPID=0")
    assert "MIXED" not in server.run("journalctl --unit=amd-gpu-tracker.service")


def test_a_generation_that_no_process_can_have_is_removed_at_the_next_boot(machine: Machine, server: Server) -> None:
    machine.apt(f"install {server.files('9.2')}")
    (old, new) = sorted(server.run(f"ls -A {GENERATIONS}").split())
    assert old.startswith("9.1-")
    assert server.run(f"tail -n +2 {AT_BOOT}") == f"R! {GENERATIONS}/{old}\n"

    machine.apt(f"install --allow-downgrades {server.files('9.1')}")
    assert server.run(f"tail -n +2 {AT_BOOT}") == f"R! {GENERATIONS}/{new}\n"
    server.run("systemd-tmpfiles --remove")
    assert len(server.run(f"ls -A {GENERATIONS}").split()) == 2
    server.run("systemd-tmpfiles --remove --boot")

    assert server.run(f"ls -A {GENERATIONS}") == f"{old}\n"
    assert server.run("amd-ctk --version").startswith("amd-ctk version 2.")


def test_without_systemd_the_first_upgrade_after_a_boot_removes_it(machine: Machine, server: Server) -> None:
    machine.apt(f"install {server.files('9.2')}")
    server.run(f"sed -i '1s/boot .*/boot before/' {AT_BOOT}")

    machine.apt(f"install --allow-downgrades {server.files('9.1')}")

    (old, new) = sorted(server.run(f"ls -A {GENERATIONS}").split())
    assert (old[:4], new[:4]) == ("9.1-", "9.2-")
    assert server.run(f"tail -n +2 {AT_BOOT}") == f"R! {GENERATIONS}/{new}\n"
    server.run("amd-gpu-tracker --help")


def test_wherever_dpkg_is_killed_programs_are_of_one_version(server: Server) -> None:
    """And after a power cut: what dpkg and the assembler have written by then is what the machine boots with."""
    server.begin()
    chance = random.Random(42)
    version = "9.1"
    for _ in range(10):
        version = others(version)
        order = chance.choice(ORDERS)
        server.run(
            f"setsid dpkg --install {server.files(version, order)} >/dev/null 2>&1 & installing=$!\n"
            f"sleep {chance.uniform(0.1, 3):.2f}; kill -KILL -- -$installing; wait\n"
            "dpkg --configure -a >/dev/null 2>&1 || true"
        )
        server.wait_for_starts(3)
    server.dpkg(version)

    assert server.end()["failures"] == []
    assert server.run("dpkg --audit") == ""
    assert f'toolkit_build = "{version}"' in server.run("cat /usr/bin/amd-ctk")
    assert "kept" not in server.end_what_was_before()


def test_a_power_cut_while_dpkg_works_leaves_a_machine_that_boots_with_one_version(
    machine: Machine, server: Server
) -> None:
    """No shutdown, no script of a package: everything is killed at once, and the machine boots from what is on disk."""
    chance = random.Random(7)
    version, served = "9.1", set()
    for cut in range(POWER_CUTS):
        version = others(version)
        words = f"dpkg --force-unsafe-io --install {server.files(version, chance.choice(ORDERS))}"
        pause = f"sleep {chance.uniform(0.1, 4):.2f}"
        if cut == POWER_CUTS - 1:
            # One comes behind the exchange, however busy the machine is.
            pause = f"until grep -q '\"{version}\"' /usr/bin/amd-ctk; do sleep 0.1; done"
        server.run(f"systemd-run --quiet --unit=upgrade-{cut} {words}; {pause}")
        machine.system.kill()
        machine.system.boot()

        # Nothing has been repaired: the old version serves, or the new one, and never some of each.
        for program in PROGRAMS:
            server.run(f"{program} >/dev/null")
        served.add(version in server.run("cat /usr/bin/amd-ctk"))
        server.run("dpkg --configure -a >/dev/null 2>&1 || true")
        server.dpkg(version)
        assert server.run("dpkg --audit") == ""
        assert f'toolkit_build = "{version}"' in server.run("cat /usr/bin/amd-ctk")

    # Cuts came before the new version served, and after it did.
    assert served == {False, True}


def test_a_toolkit_that_dpkg_puts_together_fails(box: Box, debs: list[Path], tmp_path: Path) -> None:
    server = Server(lambda script: box("sh", "-c", f"cd /root\n{script}").stdout, box.share, "/box")
    for version in VERSIONS:
        server.offer(checked_debs(debs, tmp_path / version, version=version, as_before=True), version)
    server.dpkg("9.1")
    server.begin()

    for version in ("9.2", "9.1", "9.2", "9.1"):
        server.dpkg(version)
        server.wait_for_starts(5)

    assert len(server.end()["failures"]) >= 10
