"""What the watcher notices, and when it looks."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from amd_ctk.cdi.watch import find_waiting, read_fingerprint, watch
from amdgpu_discovery.host import Host


@pytest.fixture
def machine(host):
    return host("mi300x-8")


def write(host, path, text):
    with open(host.path(path), "w", encoding="utf-8") as file:
        file.write(text)


def test_a_host_without_changes_reads_the_same_twice(machine):
    assert read_fingerprint(machine) == read_fingerprint(machine)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sys/class/kfd/kfd/topology/generation_id", "3\n"),
        ("/dev/dri/renderD199", ""),
        ("/sys/class/drm/renderD199", ""),
    ],
)
def test_a_change_of_the_host_is_noticed(machine, path, text):
    before = read_fingerprint(machine)

    write(machine, path, text)

    assert read_fingerprint(machine) != before


def test_a_partition_of_any_gpu_is_noticed(machine):
    directory = "/sys/module/amdgpu/drivers/pci:amdgpu"
    addresses = sorted(name for name in machine.names(directory) if ":" in name)
    looks = [read_fingerprint(machine)]

    for address in addresses:
        write(machine, f"{directory}/{address}/current_compute_partition", "CPX\n")
        looks.append(read_fingerprint(machine))

    assert len(addresses) == 8
    assert len(set(looks)) == 9


def test_a_host_without_driver_can_be_watched(host):
    nothing = read_fingerprint(host("no-driver"))

    assert nothing != read_fingerprint(host("one-gpu"))


def test_a_refresh_follows_each_change_and_is_repeated_until_it_succeeds(machine):
    looks = []
    changes = iter([None, None, "4\n", None, None])
    answers = iter([True, False, False, True])

    def refresh():
        looks.append(len(waits))
        return next(answers)

    waits = []

    def wait(seconds):
        waits.append(seconds)
        if generation := next(changes):
            write(machine, "/sys/class/kfd/kfd/topology/generation_id", generation)

    watch(machine, refresh, wait=wait, interval=5.0, rounds=5)

    # At the start; not while nothing happens; after the change, twice in vain.
    assert looks == [0, 3, 4]
    assert waits == [5.0] * 5


def test_events_of_this_machine_say_nothing_of_a_simulated_one(machine):
    assert find_waiting(machine) == (time.sleep, "")


class StandInMonitor:
    """What pyudev hears from udev: two events that follow each other, then nothing."""

    def __init__(self):
        self.subsystems = []
        self.asked = []
        self.events = ["a GPU came", "its nodes came"]

    def from_netlink(self, _context, source):
        assert source == "udev"
        return self

    def filter_by(self, subsystem):
        self.subsystems.append(subsystem)

    def start(self):
        assert self.subsystems == ["drm", "kfd", "pci"]

    def poll(self, seconds):
        self.asked.append(seconds)
        return self.events.pop(0) if self.events else None


def test_an_event_of_udev_ends_the_wait_once_events_pause(monkeypatch):
    monitor = StandInMonitor()
    monkeypatch.setitem(sys.modules, "pyudev", SimpleNamespace(Context=object, Monitor=monitor))
    wait, obstacle = find_waiting(Host("/"))

    assert obstacle == ""
    wait(5.0)

    # The first look may take the whole interval, each further one a fifth of a second.
    assert monitor.asked == [5.0, 0.2, 0.2]


def test_without_pyudev_the_interval_alone_must_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyudev", None)

    assert find_waiting(Host("/")) == (time.sleep, "pyudev is not installed (pip install 'amd-ctk[udev]')")


def test_the_real_pyudev_waits_no_longer_than_it_is_told():
    pytest.importorskip("pyudev", reason="pyudev is not installed, or finds no libudev", exc_type=ImportError)
    wait, _ = find_waiting(Host("/"))

    # It ends by itself; where events cannot be heard it is the same to its caller.
    assert wait(0.01) is None
