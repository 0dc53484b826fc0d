from __future__ import annotations

from amd_gpu_tracker.watch.usage.documents import format_prometheus
from amd_gpu_tracker.watch.usage.users import GpuUsage, GpuUser, Usage, UserProcess, with_few_users

GPU = GpuUsage(
    number=0,
    uuid="N/A",
    pci_address="0000:03:00.0",
    key="0000:03:00.0/0",
    partition_rank=0,
    partition_total=1,
    model="MI210",
    is_apu=False,
    vram_total=None,
    vram_used=None,
    gtt_total=None,
    gtt_used=None,
    busy_percent=None,
    users=(),
    product_name="",
)


def using(container_id: str, user: int | None, amount: int, *, is_tracked: bool = False) -> GpuUser:
    process = UserProcess(
        pid=amount, name="", vram_bytes=amount, gtt_bytes=0, compute_units=0, sdma_us=0, busy_percent=None
    )
    return GpuUser(
        container_id=container_id,
        name="",
        engine="docker",
        is_tracked=is_tracked,
        since=None,
        processes=(process,),
        user=user,
    )


def test_of_one_user_32_containers_are_distinguished_and_the_rest_is_summed():
    theirs = [using(str(number), 1000, number) for number in range(1, 101)]
    others = [using("roots", None, 1), using("a", 1001, 1), using("leased", 1000, 1, is_tracked=True)]

    (gpu,) = with_few_users([GPU.replace(users=(*theirs, *others))])

    assert [user.container_id for user in gpu.users] == [*map(str, range(69, 101)), "roots", "a", "leased", ""]
    assert (gpu.users[-1].title, gpu.users[-1].vram_bytes) == ("68 more containers of user 1000", 2346)


def test_the_sum_over_all_gpus_decides_which_users_are_shown():
    on_first = [using(str(number), 1000, 100) for number in range(32)]
    large = using("large", 1000, 1)

    first, second = with_few_users(
        [GPU.replace(users=(*on_first, large)), GPU.replace(users=(large, using("large", 1000, 200)))]
    )

    assert [user.container_id for user in first.users] == [*map(str, range(31)), "large", ""]
    assert [user.container_id for user in second.users] == ["large", "large"]


def test_users_with_processes_in_no_container_are_bounded_too():
    bare = [using("", 100000 + number, number + 1) for number in range(40)]

    (gpu,) = with_few_users([GPU.replace(users=tuple(bare))])

    assert [user.user for user in gpu.users] == [*range(100008, 100040), None]
    assert gpu.users[-1].title == "(no container) 8 more users"


def test_few_are_left_as_they_are():
    few = (GPU.replace(users=(using("a", 1000, 1), using("", None, 2))),)

    assert with_few_users(few) == few


def test_ids_that_look_the_same_for_prometheus_are_one_sample():
    users = (using("a\x01", 1000, 1), using("a?", 1000, 2), using("a?", None, 4))
    usage = Usage(enabled=True, gpus=(GPU.replace(users=users),), not_shown=0)

    samples = [line for line in format_prometheus(usage).splitlines() if line.startswith("amd_gpu_container_vram")]

    labels = 'gpu_id="0",gpu_partition_id="0",container_id="a?",container="",engine="docker"'
    assert samples == [
        f'amd_gpu_container_vram_bytes{{{labels},user="1000"}} 3',
        f'amd_gpu_container_vram_bytes{{{labels},user=""}} 4',
    ]


def test_summed_use_has_no_id_for_prometheus():
    theirs = [using(str(number), 1000, number) for number in range(1, 35)]
    usage = Usage(enabled=True, gpus=with_few_users([GPU.replace(users=tuple(theirs))]), not_shown=0)

    labels = 'gpu_id="0",gpu_partition_id="0",container_id="(others)",container="",engine="",user="1000"'
    assert f"amd_gpu_container_vram_bytes{{{labels}}} 3\n" in format_prometheus(usage)
