from __future__ import annotations

import pytest

from amd_gpu_tracker.watch.show.listing import format_amount, format_listing
from amd_gpu_tracker.watch.usage.text import list_usage, usage_notes
from amd_gpu_tracker.watch.usage.users import GpuUsage, GpuUser, Usage, UserProcess

GIB = 1 << 30
NOW = 1_800_000_000.0
GPU = GpuUsage(
    number=0,
    uuid="N/A",
    pci_address="0000:03:00.0",
    key="0000:03:00.0/0",
    partition_rank=0,
    partition_total=1,
    model="MI210",
    is_apu=False,
    vram_total=64 * GIB,
    vram_used=GIB // 2,
    gtt_total=None,
    gtt_used=None,
    busy_percent=None,
    users=(),
    product_name="",
)


def process(pid: int, name: str) -> UserProcess:
    return UserProcess(pid=pid, name=name, vram_bytes=GIB, gtt_bytes=0, compute_units=0, sdma_us=0, busy_percent=None)


def user(*processes: UserProcess, **fields: object) -> GpuUser:
    named = {"container_id": "job", "name": "", "engine": "", "is_tracked": True, "since": NOW - 7800}
    return GpuUser(**{**named, "processes": processes, **fields})


def last_row(*users: GpuUser) -> str:
    usage = Usage(enabled=True, gpus=(GPU.replace(users=users),), not_shown=0)
    return format_listing(list_usage(usage, now=NOW)).splitlines()[-1]


def test_a_reservation_says_how_long_it_is_idle():
    idle = last_row(user(last_used=NOW - 7440))

    assert idle == "0    MI210  0.5 of 64.0 GiB  job          reserved 2 h 10 min, idle 2 h 4 min"


def test_many_processes_are_counted():
    busy = last_row(user(*(process(pid, "python") for pid in range(101, 110)), process(7, "")))

    assert busy.endswith("10.0 GiB  python 101, 102, 103, 104, 105, 106 and 3 more; unknown 7")


def test_a_container_with_thousands_of_names_has_one_row():
    busy = last_row(user(*(process(pid, f"job{pid}") for pid in range(1, 5001))))

    assert busy.endswith("  job1 1; job2 2; job3 3; job4 4; job5 5; job6 6; 4994 more with other names")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("python", "python"),
        ("1; root 2", '"1; root 2"'),
        ("python 3121", '"python 3121"'),
        ("x (not tracked)", '"x (not tracked)"'),
        ('"', '"\\""'),
        ("  ", '"  "'),
        ("\u2800\u3164", '"\u2800\u3164"'),
        ("訓練", "訓練"),
    ],
)
def test_a_name_cannot_be_taken_for_a_part_of_the_list(name, shown):
    assert last_row(user(process(7, name))).endswith(f"  1.0 GiB  {shown} 7")


def test_processes_outside_of_the_pid_namespace_have_no_number():
    assert last_row(user(process(0, ""))).endswith("1.0 GiB  not found in this pid namespace")


def test_a_process_whose_partition_is_not_known_says_so():
    assert last_row(user(process(7, "a").replace(is_partition_told=False))).endswith("a 7 (one of the partitions)")


@pytest.mark.parametrize(
    ("used", "amount", "row"),
    [
        (30 * GIB, 0, "30.0 of 64.0 GiB  (not accounted for)  30.0 GiB"),
        (30 * GIB, 28 * GIB, "(not accounted for)   2.0 GiB"),
        (30 * GIB, 29 * GIB, "python 7"),
        (GIB // 2, 0, "-"),
    ],
)
def test_memory_that_no_process_has_is_not_free(used, amount, row):
    users = (user(process(7, "python").replace(vram_bytes=amount)),) if amount else ()
    usage = Usage(enabled=True, gpus=(GPU.replace(vram_used=used, users=users),), not_shown=0)

    assert format_listing(list_usage(usage, now=NOW)).splitlines()[-1].endswith(row)


def test_memory_that_is_not_known_is_a_dash():
    usage = Usage(enabled=True, gpus=(GPU.replace(vram_used=None),), not_shown=0)

    assert "  - of 64.0 GiB  " in format_listing(list_usage(usage, now=NOW))


@pytest.mark.parametrize(
    ("count", "sentences"),
    [
        (0, []),
        (1, ["1 process of another user could not be checked for GPU use; run the command with sudo"]),
        (12, ["12 processes of other users could not be checked for GPU use; run the command with sudo"]),
    ],
)
def test_how_many_processes_are_not_shown_is_reported(count, sentences):
    assert usage_notes(Usage(enabled=True, gpus=(), not_shown=count), now=NOW, peaks=False) == sentences


def test_little_memory_is_not_nothing():
    assert [format_amount(amount) for amount in (None, 0, 1, 5 << 20, GIB // 10)] == [
        "-",
        "0.0 GiB",
        "1 MiB",
        "5 MiB",
        "0.1 GiB",
    ]
