"""Packages are removed, upgraded, rolled back and purged while people work.

Each test goes on where the one before ended.
"""

from __future__ import annotations

import pytest

from support.stand import wait_until

pytestmark = pytest.mark.e2e

CONFIG = "/etc/amd-container-toolkit/config.toml"
METRICS = "/var/lib/prometheus/node-exporter/amd-gpu.prom"
NO_SOCKET = "usr/lib/systemd/system/amd-gpu-tracker.socket"


@pytest.fixture(scope="module")
def shared(stand):
    """Return a machine on which alice has a GPU, bob waits for all four, and GPU 3 is drained."""
    stand.run("mkdir -p /var/lib/prometheus/node-exporter")
    stand.run("amd-ctk gpu-tracker enable; amd-ctk gpu-tracker all exclusive; amd-ctk report enable")
    stand.run("amd-ctk users allow everyone; amd-ctk gpu-tracker drain 3 --reason cable")
    stand.as_user("alice", "amd-ctk run --gpus=0 --name=train -- sleep 86400 >/dev/null 2>&1 &")
    # Else bob may be the first, and be done at once.
    wait_until(lambda: "train" in stand.run("amd-ctk queue list", check=False))
    stand.as_user("bob", "amd-ctk run --gpus=0 --wait --name=later -- echo ran >/tmp/bob 2>&1 &")
    wait_until(lambda: works(stand))
    return stand


def works(stand):
    """Return whether alice's job has its GPU, bob's waits, and the service answers."""
    shown = stand.run("amd-ctk queue list", check=False)
    return "train" in shown and "later" in shown and is_active(stand, "amd-gpu-tracker.socket")


def is_active(stand, unit):
    return stand.run(f"systemctl is-active {unit}", check=False) == "active\n"


def test_settings_stay_until_the_package_that_all_need_is_purged(shared):
    settings = shared.run(f"cat {CONFIG}")
    assert 'users = ["everyone"]' in settings

    shared.apt("purge amd-container-runtime amd-container-toolkit")

    assert shared.run(f"cat {CONFIG}") == settings
    assert works(shared)
    shared.install()
    assert shared.run(f"cat {CONFIG}") == settings


def test_an_upgrade_keeps_jobs_waiters_and_services(shared):
    shared.release("9.0")
    # On a machine that is busy, Docker's daemon may have failed before.
    failed = shared.run("systemctl --failed --no-legend")

    shared.change_to("9.0")

    assert shared.run("dpkg-query -W -f '${Version}' amd-ctk") == "9.0"
    assert works(shared)
    assert is_active(shared, "amd-gpu-usage.timer")
    assert shared.run("systemctl --failed --no-legend") == failed
    assert "amd-" not in failed


def test_a_roll_back_to_a_version_without_the_socket_and_an_upgrade_end_in_a_service_that_answers(shared):
    def drop_socket(tree):
        (tree / NO_SOCKET).unlink(missing_ok=True)

    shared.release("1.9", edit=drop_socket)
    shared.change_to("1.9")
    shared.run("systemctl restart amd-gpu-tracker.service", check=False)
    lines = len(shared.journal_of("amd-gpu-tracker.service").splitlines())

    shared.run("sleep 5")

    # It does not start again and again.
    assert len(shared.journal_of("amd-gpu-tracker.service").splitlines()) < lines + 10
    shared.change_to("9.0")
    assert works(shared)
    assert shared.as_user("alice", "amd-ctk run --gpus=1 -- echo ran").endswith("GPU 1\nran\n")


def test_units_that_an_administrator_enabled_are_enabled_when_the_packages_come_again(shared):
    shared.run("systemctl disable --quiet amd-cdi-watch.service")

    shared.apt("remove amd-ctk")
    assert shared.run(f"ls {METRICS}", check=False).startswith("ls: cannot access")
    shared.install()

    units = "amd-gpu-tracker.socket amd-gpu-usage.timer amd-cdi-refresh.service amd-cdi-watch.service"
    assert shared.run(f"systemctl is-enabled {units}", check=False) == "enabled\nenabled\nenabled\ndisabled\n"
    assert is_active(shared, "amd-gpu-tracker.socket")
    assert is_active(shared, "amd-gpu-usage.timer")


def test_a_purge_leaves_nothing_for_the_next_installation(shared):
    shared.run("pkill -x -U alice sleep")
    wait_until(lambda: shared.run("cat /tmp/bob", check=False).endswith("ran\n"))

    shared.apt("purge 'amd*'")

    places = "/etc/amd-container-toolkit /var/lib/amd-container-toolkit /run/amd-container-toolkit"
    left = shared.run(
        f"ls -d {places} {METRICS} 2>/dev/null; find /etc/systemd -name 'amd-gpu*' -o -name 'amd-cdi*'", check=False
    )
    assert left == ""
    shared.install()
    assert "drained" not in shared.run("amd-ctk status")
    assert shared.run("amd-ctk gpu-tracker status --json").count('"enabled": false') == 1
