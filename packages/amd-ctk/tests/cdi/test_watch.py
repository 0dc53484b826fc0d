"""What the watcher notices, and when it looks."""

from __future__ import annotations

import pytest

from amd_ctk.cdi.watch import find_waiting, read_fingerprint, watch


@pytest.fixture
def machine(host):
    return host("mi300x-8")


def write(host, path, text):
    with open(host.path(path), "w", encoding="utf-8") as file:
        file.write(text)


def test_a_host_at_rest_looks_the_same(machine):
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
    import time

    assert find_waiting(machine) is time.sleep
