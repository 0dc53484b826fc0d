from __future__ import annotations

import os
from pathlib import Path

from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.host import Host
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_discovery.usage.kfd_processes import ProcessUse
from amdgpu_discovery.usage.reading import find_gpu_busy, find_process_busy, processes_directory, read_usage
from amdgpu_discovery.usage.totals import GpuTotals
from amdgpu_simulator import load_profile

GIB = 1 << 30


def use_gpus(simulated, name, *processes, **gpu_fields):
    profile = load_profile(name).replace(processes=processes)
    return simulated(profile.with_every_gpu(**gpu_fields))


def read(host, taken=0.0):
    return read_usage(host, find_gpus(host), proc=processes_directory(host), clock=lambda: taken)


def test_the_larger_of_both_accounts_counts_and_never_their_sum(simulated):
    host = use_gpus(
        simulated,
        "mi210-4",
        SimulatedProcess(pid=3121, uses=(SimulatedUse(gpu=2, vram_bytes=40 * GIB, client_id=7, compute_units=52),)),
    )

    reading = read(host)

    # In the profile the third GPU has the lowest address.
    assert reading.processes == (ProcessUse(pid=3121, gpu=0, vram_bytes=40 * GIB, compute_units=52),)
    assert reading.totals[0] == GpuTotals(
        vram_total=68702699520, vram_used=40 * GIB, gtt_total=64 * GIB, gtt_used=0, busy_percent=None
    )


def test_a_process_that_opened_kfd_uses_only_the_gpus_on_which_it_has_something(simulated):
    host = use_gpus(simulated, "mi210-4", SimulatedProcess(pid=9, uses=(SimulatedUse(gpu=0, compute_units=1),)))

    assert [(use.pid, use.gpu) for use in read(host).processes] == [(9, 3)]


def test_a_client_that_processes_share_counts_once_and_not_for_the_one_that_opens_for_others(simulated):
    shared = SimulatedUse(gpu=2, vram_bytes=GIB, in_kfd=False, client_id=5)
    host = use_gpus(
        simulated,
        "mi210-4",
        SimulatedProcess(pid=600, name="systemd-logind", uses=(shared,)),
        SimulatedProcess(pid=811, name="Xorg", uses=(shared, shared)),
        SimulatedProcess(pid=900, name="Xorg", uses=(shared,)),
    )

    assert read(host).processes == (ProcessUse(pid=811, gpu=0, vram_bytes=GIB),)


def test_partitions_have_their_own_use_and_their_nodes_tell_which_it_is(simulated):
    host = use_gpus(
        simulated,
        "mi300x-8-cpx",
        SimulatedProcess(pid=70, uses=(SimulatedUse(gpu=0, partition=3, vram_bytes=GIB, compute_units=19),)),
        SimulatedProcess(
            pid=71, uses=(SimulatedUse(gpu=0, partition=5, vram_bytes=2 * GIB, client_id=3, in_kfd=False),)
        ),
    )

    first, second = read(host, 1.0), read(host, 2.0)

    assert [(use.pid, use.gpu, use.vram_bytes) for use in first.processes] == [(70, 3, GIB), (71, 5, 2 * GIB)]
    assert (first.totals[3].vram_used, first.totals[3].busy_percent) == (None, None)
    assert [find_gpu_busy(first, second)[number] for number in (3, 5)] == [50, 0]


def test_a_container_that_names_a_node_after_another_partition_is_counted_where_kfd_says(simulated):
    def using(pid, partition, **fields):
        use = SimulatedUse(gpu=0, partition=partition, vram_bytes=GIB, client_id=pid, **fields)
        return SimulatedProcess(pid=pid, uses=(use,))

    host = use_gpus(
        simulated, "mi300x-8-cpx", using(70, 3), using(71, 5, in_kfd=False), using(72, 6, in_kfd=False), using(73, 4)
    )
    own, *_ = (gpu for gpu in find_gpus(host) if gpu.number == 7)
    for pid, namespace in (("self", "mnt:[1]"), (70, "mnt:[2]"), (71, "mnt:[2]"), (72, "mnt:[1]"), (73, "mnt:[2]")):
        directory = Path(host.path(f"/proc/{pid}/ns"))
        directory.mkdir(parents=True)
        (directory / "mnt").symlink_to(namespace)
    for pid in (70, 71):
        node = Path(host.path(f"/proc/{pid}/fd/3"))
        node.unlink()
        node.symlink_to(own.render_path)

    found = read(host).processes

    assert [(use.pid, use.gpu, use.is_partition_told) for use in found] == [
        (70, 3, True),
        (73, 4, True),
        (72, 6, True),
        (71, 7, False),
    ]


def test_the_memories_of_an_apu_are_distinguished(simulated):
    host = use_gpus(
        simulated,
        "strix-halo",
        SimulatedProcess(
            pid=70, uses=(SimulatedUse(gpu=0, vram_bytes=GIB // 4, gtt_bytes=3 * GIB, client_id=3, in_kfd=False),)
        ),
    )

    reading = read(host)

    assert reading.processes == (ProcessUse(pid=70, gpu=0, vram_bytes=GIB // 4, gtt_bytes=3 * GIB),)
    assert (reading.totals[0].vram_used, reading.totals[0].gtt_used) == (GIB // 4, 3 * GIB)


def test_busy_is_told_by_two_readings(simulated):
    def at(nanoseconds, percent, taken):
        use = SimulatedUse(gpu=2, vram_bytes=GIB, client_id=7, in_kfd=False, engines={"gfx": nanoseconds, "dma": 5})
        other = SimulatedUse(gpu=0, vram_bytes=GIB, client_id=8, in_kfd=False, engines={"gfx": nanoseconds})
        profile = load_profile("mi210-4").replace(processes=(SimulatedProcess(pid=9, uses=(use, other)),))
        return read(simulated(profile.with_gpu(2, busy_percent=percent)), taken)

    before, after = at(100, 90, 10.0), at(500_000_100, 96, 12.0)

    # GPU 0 measures itself, GPU 3 does not, and nothing tells of the others.
    assert find_gpu_busy(before, after) == {0: 93, 1: None, 2: None, 3: 25}
    assert find_process_busy(before, after) == {(9, 0): 25, (9, 3): 25}
    assert find_process_busy(after, after) == {(9, 0): 0, (9, 3): 0}


def test_processes_of_this_machine_do_not_use_a_simulated_host(simulated):
    host = simulated("mi210-4")

    assert processes_directory(host) == "/proc"
    assert read(host).processes == ()


class ThisMachine(Host):
    """A simulated host that programs take for the machine on which they run."""

    is_this_machine = True


def test_in_another_pid_namespace_processes_of_kfd_have_no_owner(simulated, tmp_path):
    processes = (
        SimulatedProcess(pid=9, uses=(SimulatedUse(gpu=2, vram_bytes=GIB, sdma_us=3),)),
        SimulatedProcess(pid=10, uses=(SimulatedUse(gpu=2, vram_bytes=2 * GIB, compute_units=5, sdma_us=4),)),
    )
    host = ThisMachine(use_gpus(simulated, "mi210-4", *processes).root)
    namespaces = tmp_path / "proc" / "self" / "ns"
    namespaces.mkdir(parents=True)

    def pids_seen_in(namespace):
        (namespaces / "pid").unlink(missing_ok=True)
        (namespaces / "pid").symlink_to(f"pid:[{namespace}]")
        return read_usage(host, find_gpus(host), proc=str(tmp_path / "proc")).processes

    assert [use.pid for use in pids_seen_in(4026531836)] == [9, 10]
    assert pids_seen_in(4026532788) == (ProcessUse(pid=0, gpu=0, vram_bytes=3 * GIB, compute_units=5, sdma_us=7),)


def test_in_another_pid_namespace_what_drm_has_found_is_not_counted_again(simulated):
    processes = (
        SimulatedProcess(pid=9, uses=(SimulatedUse(gpu=2, vram_bytes=3 * GIB, client_id=5, compute_units=5),)),
        SimulatedProcess(pid=10, uses=(SimulatedUse(gpu=0, vram_bytes=GIB, client_id=6, compute_units=5),)),
        SimulatedProcess(pid=11, uses=(SimulatedUse(gpu=0, vram_bytes=2 * GIB),)),
    )
    host = ThisMachine(use_gpus(simulated, "mi210-4", *processes).root)

    found = read_usage(host, find_gpus(host), proc=host.path("/proc")).processes

    assert [(use.pid, use.gpu, use.vram_bytes) for use in found] == [
        (9, 0, 3 * GIB),
        (0, 3, 2 * GIB),
        (10, 3, GIB),
    ]


def test_a_host_without_kfd_processes_and_files_of_totals_says_nothing(simulated):
    host = use_gpus(simulated, "one-gpu", SimulatedProcess(pid=1, uses=(SimulatedUse(gpu=0),)))
    Path(host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/mem_info_vram_used")).unlink()

    reading = read(host)

    assert reading.processes == ()
    assert reading.totals[0].vram_used is None


def test_a_driver_that_hangs_tells_nothing_and_is_not_asked_again(simulated):
    host = use_gpus(simulated, "mi210-4", SimulatedProcess(pid=9), busy_percent=50)
    busy = Path(host.path("/sys/module/amdgpu/drivers/pci:amdgpu/0000:03:00.0/gpu_busy_percent"))
    busy.unlink()
    os.mkfifo(busy)

    first = read(host)
    busy.unlink()
    busy.write_text("50\n")
    second = read_usage(host, find_gpus(host), proc=processes_directory(host), before=first)

    assert [(totals.busy_percent, totals.is_hanging) for totals in first.totals] == [(None, True), *[(50, False)] * 3]
    assert [(totals.busy_percent, totals.is_hanging) for totals in second.totals] == [(None, True), *[(50, False)] * 3]
    assert first.totals[0].vram_used == 0
