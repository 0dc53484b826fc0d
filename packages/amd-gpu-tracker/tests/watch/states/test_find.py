"""One value says how every GPU is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amd_gpu_tracker import Tracker, find_states
from amd_gpu_tracker.book.drains import Drain, write_drains
from amd_gpu_tracker.book.lease import Lease, boot_offset, since_boot
from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.leases.processes import Processes
from amd_gpu_tracker.leases.use import GpuProcess

GIBIBYTE = 1 << 30
ERRORS = {"ras/umc_err_count": "ue: 3\nce: 0"}
HOT = {
    "hwmon/hwmon0/temp2_label": "junction",
    "hwmon/hwmon0/temp2_input": "94000",
    "hwmon/hwmon0/power1_average": "700000000",
}


def states(host):
    return [each.state for each in find_states(host)]


def test_a_host_where_nothing_happens_has_free_gpus(host_of):
    assert states(host_of()) == ["free"] * 8


def test_each_gpu_has_the_state_that_matters_most(host_of):
    host = host_of(vram={0: 40 * GIBIBYTE, 5: 2 * GIBIBYTE}, health={2: ERRORS, 3: ERRORS}, busy={0: 97})
    Tracker(host).enable()
    Tracker(host).reserve("1,3", name="nightly")
    keys = [each.key for each in find_states(host)]
    write_drains(host, [Drain(key=keys[number], reason="fan swap", since=1000.0) for number in (4, 5)])

    assert states(host) == ["in use", "reserved", "suspect", "suspect", "drained", "draining", "free", "free"]


def test_a_gpu_in_use_without_a_reservation_says_by_whom(host_of):
    host = host_of(vram={0: 40 * GIBIBYTE}, busy={0: 97})

    first = find_states(host)[0]

    assert (first.state, first.person, first.what, first.busy_percent) == ("in use", "carol", "python3", 97)
    assert first.reason == "used by process 4000 (python3 of carol) without a reservation"
    assert first.processes == (GpuProcess(pid=4000, program="python3", person="carol", vram_bytes=40 * GIBIBYTE),)
    assert first.vram_used == 40 * GIBIBYTE


def test_a_list_looks_at_all_processes_only_for_a_gpu_in_use_by_none_that_computes(host_of):
    def look(used, **further):
        return find_states(host_of(vram={0: used}, in_kfd=False), **further)[0]

    little, much = (look(used, with_all_processes=False) for used in (200 << 20, 40 * GIBIBYTE))

    assert (little.state, little.processes) == ("free", ())
    assert (much.state, much.what) == ("in use", "python3")
    assert much.processes == (GpuProcess(pid=4000, program="python3", person="carol", vram_bytes=40 * GIBIBYTE),)
    assert [each.pid for each in look(200 << 20).processes] == [4000]


def leave_memory(host, address="0000:05:00.0"):
    """Put 181,198 MiB of a GPU in use, as a driver does that did not free them when their process ended."""
    Path(host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}/mem_info_vram_used")).write_text(
        f"{181198 * 2**20}\n"
    )


def look(host, seconds: float):
    """Return the states that a look finds after some seconds."""
    return find_states(host, processes=Processes(now=lambda: since_boot() + seconds))


@pytest.mark.needs("root")
def test_memory_that_no_process_holds_for_a_minute_has_leaked(host_of):
    host = host_of()
    Tracker(host).enable()
    leave_memory(host)

    first, soon, later = (look(host, seconds)[0] for seconds in (0, 30, 61))

    assert (first.state, first.person, first.what) == ("in use", "", "")
    assert first.reason == "used without a reservation: 181198 MiB of its memory, busy 0 %"
    assert (soon.reason, soon.has_leaked) == (first.reason, False)
    assert later.reason == "leaked: 181,198 MiB that no process holds; a reset of the GPU or a reboot frees it"
    assert later.has_leaked
    # Lists print it below their table.
    assert (first.trouble, later.trouble) == ("", f"GPU 0 is in use: {later.reason}")


@pytest.mark.needs("root")
def test_memory_that_was_held_in_between_has_not_leaked(host_of):
    host = host_of()
    Tracker(host).enable()
    leave_memory(host)
    look(host, 0)
    Path(host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:05:00.0/mem_info_vram_used")).write_text("0\n")
    look(host, 30)
    leave_memory(host)

    assert not look(host, 61)[0].has_leaked


@pytest.mark.needs("root")
def test_users_and_refusals_have_roots_verdict(host_of, monkeypatch):
    host = host_of()
    Tracker(host).enable()
    leave_memory(host)
    look(host, -100)

    with pytest.raises(GpusRefused) as refusal:
        Tracker(host).reserve("free:8", name="train")

    assert "0 leaked: 181,198 MiB that no process holds" in refusal.value.message
    assert refusal.value.doubts == {"leaked": [0]}
    monkeypatch.setattr("posix.geteuid", lambda: 40001)
    assert find_states(host)[0].has_leaked


def test_a_user_does_not_say_that_memory_has_leaked_because_others_may_hold_it(host_of, monkeypatch):
    host = host_of()
    leave_memory(host)
    monkeypatch.setattr("posix.geteuid", lambda: 40001)

    assert find_states(host)[0].reason == "used without a reservation: 181198 MiB of its memory, busy 0 %"


def test_memory_of_a_gpu_on_which_something_computes_has_not_leaked(host_of):
    host = host_of(busy={0: 40})
    leave_memory(host)

    assert find_states(host)[0].reason == "used without a reservation: 181198 MiB of its memory, busy 40 %"


def test_a_gpu_has_the_memory_that_kfd_lets_programs_use(host_of):
    host = host_of()
    Path(host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:05:00.0/mem_info_vram_total")).write_text("1048576\n")

    assert find_states(host)[0].vram_total == 206141652992


def limits_on(host):
    return [(each.limit_bytes, each.charged_bytes) for each in find_states(host)[:3]]


def test_a_container_that_uses_no_gpu_yet_has_its_limit(idle_host):
    assert limits_on(idle_host) == [(None, None), (8 * GIBIBYTE, 0), (None, None)]


@pytest.mark.parametrize(("person", "limit"), [(1001, (8 * GIBIBYTE, 0)), (1002, (None, None))])
def test_a_job_has_the_limit_of_its_own_container(idle_host, person, limit):
    """The process of a job is an engine's client, which has no limit; another person may have a job of that name."""
    processes = Processes()
    State(idle_host).write_lease(
        Lease(
            container_id=f"{person}/train",
            creator=processes.find(1),
            gpus=("0000:26:00.0/0",),
            boot_offset=boot_offset(),
            boot_id=processes.boot_id,
            namespace=processes.namespace,
            ways=("api",),
            since=1000.0,
            person=person,
        )
    )

    assert limits_on(idle_host)[1] == limit


def test_a_reserved_gpu_says_what_has_it_and_since_when(host_of):
    host = host_of(vram={1: 3 * GIBIBYTE})
    Tracker(host).enable()
    Tracker(host).reserve("1", name="nightly")

    second = find_states(host)[1]

    assert (second.state, second.what, second.person) == ("reserved", "nightly", "carol")
    assert second.since == second.containers[0].since


def test_temperature_and_power_are_those_of_the_driver(host_of):
    host = host_of(health={6: HOT})

    seventh = find_states(host)[6]

    assert (seventh.temperature, seventh.watts, seventh.state) == (94.0, 700.0, "free")


def test_the_drivers_own_memory_and_a_glance_are_no_use(host_of):
    assert states(host_of(vram={0: 200 << 20, 1: 0}, busy={0: 4, 1: 9}))[:2] == ["free", "free"]


def test_a_drain_that_is_over_is_none(host_of):
    host = host_of()
    key = find_states(host)[0].key
    write_drains(host, [Drain(key=key, reason="", since=1000.0, until=2000.0)])

    assert states(host)[0] == "free"


def test_a_driver_that_hangs_stops_neither_the_states_nor_a_choice(host_of):
    host = host_of()
    busy = Path(host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:05:00.0/gpu_busy_percent"))
    busy.unlink(missing_ok=True)
    os.mkfifo(busy)
    Tracker(host).enable()

    assert states(host) == ["sick"] + ["free"] * 7
    assert Tracker(host).reserve("free:1", name="nightly").numbers == (1,)


def test_a_second_reading_asks_for_no_errors_and_keeps_those_of_the_first(host_of):
    host = host_of(health={2: ERRORS})
    first = find_states(host)
    Path(host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{first[2].pci_address}/ras/umc_err_count")).unlink()

    again = find_states(host, with_errors=False, earlier=first)

    assert (again[2].state, again[2].reason) == ("suspect", "3 uncorrectable errors since the driver was loaded")
    assert find_states(host, with_errors=False)[2].state == "free"
