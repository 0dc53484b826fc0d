"""Which GPUs a choice takes: the order, the words of the refusal, and a model that tries every set."""

from __future__ import annotations

import itertools
import random

import pytest

from amd_gpu_tracker.book.lease import Lease, ProcessId
from amd_gpu_tracker.claims.choosing import IN_USE, Candidate, choose, format_shortage
from amd_gpu_tracker.leases.user_leases import UserLease
from amdgpu_discovery.choices.grammar import parse_choice
from amdgpu_discovery.gpu import DeviceNumber, Gpu, PciAddress


def gpu(number, hive, node):
    return Gpu(
        number=number,
        pci_address=PciAddress(domain=0, bus=number, device=0, function=0),
        render_minor=128 + number,
        card_minor=None,
        kfd_node=number,
        kfd_unique_id=0,
        pci_unique_id=0,
        partition_rank=0,
        partition_total=1,
        host_total=8,
        render_node=DeviceNumber(path="", major=226, minor=128 + number),
        card_node=None,
        gpu_id=0,
        gfx_target="gfx90a",
        device_id=0x740F,
        vram_bytes=0,
        numa_node=node,
        compute_partition="",
        memory_partition="",
        cu_count=0,
        is_apu=False,
        xgmi_hive=hive,
    )


def lease(name):
    return Lease(
        container_id=name,
        creator=ProcessId(pid=1, start=1),
        gpus=(),
        ways=(),
        since=0.0,
        boot_offset=0.0,
        boot_id="",
        namespace="",
    )


def candidates(*described):
    """Return GPUs from 0, each described by hive, NUMA node and users.

    Behind the users "!" is exclusive and in use, "?" suspect, "#" used by a program without a reservation; "~name" is a
    rootless container of another user.
    """
    return [
        Candidate(
            gpu=gpu(number, hive, node),
            users=tuple(lease(name) for name in users.rstrip("!?#").split() if name[0] != "~"),
            shares=tuple(UserLease(uid=1, lease=lease(name)) for name in users.split() if name[0] == "~"),
            obstacle=IN_USE if users.endswith("!") else "",
            doubt={"?": "suspect", "#": "used"}.get(users[-1:], ""),
            is_used_unreserved=users.endswith("#"),
        )
        for number, (hive, node, users) in enumerate(described)
    ]


def chosen(request, *described):
    found = choose(candidates(*described), parse_choice(request))
    return found and [each.number for each in found]


def refusal(request, *described, unfit=0, hidden=0):
    """Return why these GPUs are not enough, on a host with some more that do not fit and some that are hidden."""
    usable = len(described) + unfit
    found = [
        candidate.replace(gpu=candidate.gpu.replace(host_total=usable + hidden)) for candidate in candidates(*described)
    ]
    return format_shortage(found, parse_choice(request), lambda each: each.container_id, usable=usable)


def test_the_lowest_numbers_are_chosen_of_equal_gpus():
    assert chosen("auto:2", *[(None, None, "")] * 4) == [0, 1]


def test_free_gpus_come_before_shared_ones():
    assert chosen("auto:1", (1, 0, "web"), (1, 0, ""), (1, 0, "")) == [1]
    assert chosen("free:1", (1, 0, "web"), (1, 0, ""), (1, 0, "")) == [1]


def test_without_a_free_gpu_auto_takes_the_least_shared_and_free_takes_none():
    described = [(1, 0, "web db"), (1, 0, "web"), (1, 0, "web db"), (1, 0, "x!")]

    assert chosen("auto:1", *described) == [1]
    assert chosen("auto:2", *described) == [0, 1]
    assert chosen("free:1", *described) is None


def test_free_and_shared_gpus_are_not_mixed():
    assert chosen("auto:2", (1, 0, ""), (1, 0, "web")) is None


def test_free_gpus_are_not_mixed_with_one_that_a_program_uses_or_that_has_errors():
    assert chosen("auto:4", (1, 0, ""), (1, 0, ""), (1, 0, ""), (1, 0, "#")) is None
    assert chosen("auto:4", (1, 0, ""), (1, 0, ""), (1, 0, ""), (1, 0, "?")) is None


def test_without_a_free_gpu_a_suspect_one_comes_before_one_that_a_program_uses():
    assert chosen("auto:1", (1, 0, "#"), (1, 0, "?")) == [1]
    assert chosen("auto:2", (1, 0, "#"), (1, 0, "?"), (1, 0, "web db")) == [1, 2]


def test_leases_that_users_wrote_keep_auto_from_no_gpu():
    assert chosen("auto:2", (1, 0, ""), (1, 0, "~c1")) == [0, 1]
    assert chosen("free:2", (1, 0, ""), (1, 0, "~c1")) is None


def test_an_exclusive_gpu_in_use_is_never_chosen():
    assert chosen("auto:1", (1, 0, "web!"), (1, 0, "db!")) is None


def test_gpus_of_one_hive_come_before_lower_numbers():
    assert chosen("auto:2", (1, 0, ""), (1, 0, "web"), (2, 1, ""), (2, 1, "")) == [2, 3]


def test_gpus_of_one_numa_node_come_next():
    assert chosen("auto:2", (None, 0, ""), (None, 1, ""), (None, 1, "")) == [1, 2]
    assert chosen("auto:2", (1, 0, ""), (1, 1, ""), (1, 1, "")) == [1, 2]
    # The hive counts more than the node.
    assert chosen("auto:2", (1, 0, ""), (2, 0, ""), (2, 1, "")) == [1, 2]


def test_gpus_without_a_hive_are_no_neighbours():
    assert chosen("auto:2", (None, None, ""), (1, 0, ""), (None, None, ""), (1, 1, "")) == [1, 3]


def test_fewest_reservations_count_more_than_neighbours():
    assert chosen("auto:2", (1, 0, "a b"), (1, 0, "a b"), (2, 1, "a"), (3, 1, "a")) == [2, 3]


def test_xgmi_takes_gpus_of_one_hive_or_none():
    described = [(1, 0, ""), (1, 0, "web!"), (2, 1, ""), (2, 1, "")]

    assert chosen("free:2+xgmi", *described) == [2, 3]
    assert chosen("free:3+xgmi", *described) is None


def test_more_gpus_than_a_hive_has_come_from_several():
    assert chosen("auto:3", (1, 0, ""), (1, 0, ""), (2, 1, ""), (2, 1, "")) == [0, 1, 2]


def test_the_refusal_says_which_gpus_are_in_use_and_by_what():
    described = [(1, 0, "a!"), (1, 0, "b!"), (1, 0, "web"), (1, 0, "")] + [(2, 1, "c!")] * 4

    assert refusal("auto:2", *described) == (
        "auto:2: 1 of 8 GPUs is free (0, 1, 4-7 exclusive and in use; 2 in use by web);"
        " 'amd-ctk run --gpus=auto:2 --wait -- COMMAND' waits for one"
    )


def test_the_refusal_counts_what_is_missing():
    assert refusal("free:2", *[(1, 0, "web")] * 2, (1, 0, "web db")) == (
        "free:2: 0 of 3 GPUs are free (0, 1 in use by web; 2 in use by web and db);"
        " 'amd-ctk run --gpus=free:2 --wait -- COMMAND' waits for 2"
    )
    assert refusal("free:3+numa:0", (1, 0, ""), (1, 0, ""), (1, 0, "web!"), unfit=5) == (
        "free:3+numa:0: 2 of 3 GPUs that fit are free (2 exclusive and in use);"
        " 'amd-ctk run --gpus=free:3+numa:0 --wait -- COMMAND' waits for one"
    )


def test_the_refusal_counts_the_gpus_that_this_process_may_use():
    assert refusal("free:2", (1, 0, ""), (1, 0, "web"), hidden=3) == (
        "free:2: 1 of the 2 GPUs this process may use is free (1 in use by web);"
        " 'amd-ctk run --gpus=free:2 --wait -- COMMAND' waits for one"
    )
    assert refusal("free:1+numa:0", (1, 0, "web"), unfit=1, hidden=3) == (
        "free:1+numa:0: 0 of 1 GPU that fit are free (0 in use by web);"
        " 'amd-ctk run --gpus=free:1+numa:0 --wait -- COMMAND' waits for one"
    )


def test_the_refusal_says_how_many_are_neighbours():
    described = [(1, 0, ""), (1, 0, "web!"), (2, 1, ""), (2, 1, "db!")]

    assert refusal("free:2+xgmi", *described) == (
        "free:2+xgmi: 2 of 4 GPUs are free, 1 of them in one XGMI hive (1, 3 exclusive and in use);"
        " 'amd-ctk run --gpus=free:2+xgmi --wait -- COMMAND' waits for one"
    )


def test_the_refusal_does_not_list_a_hundred_containers():
    many = " ".join(f"c{number}" for number in range(100))

    assert refusal("free:1", (1, 0, many)) == (
        "free:1: 0 of 1 GPU are free (0 in use by c0 and c1 and c2 and c3 and c4 and c5 and c6 and c7 and 92 more);"
        " 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
    )
    assert refusal("free:1", *((1, 0, f"c{number}") for number in range(12))).endswith(
        "7 in use by c7; 4 more in use); 'amd-ctk run --gpus=free:1 --wait -- COMMAND' waits for one"
    )


def best_by_trying(described, request):
    """Return the GPUs of a choice as the documentation puts it, by trying every set."""
    choice = parse_choice(request)
    gpus = candidates(*described)
    free = [gpu for gpu, (*_, users) in zip(gpus, described, strict=True) if not users]
    # "auto prefers other GPUs" to those of rootless containers, and is not refused for these.
    of_users = [gpu for gpu, (*_, users) in zip(gpus, described, strict=True) if users in ("~u", "~u ~v")]
    in_use = [gpu for gpu, (*_, users) in zip(gpus, described, strict=True) if users[-1:] != "!"]
    pool = free if choice.word == "free" else free + of_users if free else in_use

    def one(values):
        return len(values) == 1 or (None not in values and len(set(values)) == 1)

    ranked = [
        (
            sum(described[each.gpu.number][2].endswith("#") for each in picked),
            sum(described[each.gpu.number][2].endswith(("#", "?")) for each in picked),
            sum(len(described[each.gpu.number][2].rstrip("?#").split()) for each in picked),
            not one([each.gpu.xgmi_hive for each in picked]),
            not one([each.gpu.numa_node for each in picked]),
            sorted(each.gpu.number for each in picked),
        )
        for picked in itertools.combinations(pool, choice.count)
        if "xgmi" not in request or len({each.gpu.xgmi_hive for each in picked}) == 1
        if "xgmi" not in request or None not in {each.gpu.xgmi_hive for each in picked}
    ]
    return min(ranked)[-1] if ranked else None


USERS = ["", "", "", "a", "b", "a b", "a b c", "a!", "b!", "?", "#", "a?", "~u", "~u ~v"]


@pytest.mark.parametrize("seed", range(13))
def test_the_choice_is_the_best_of_all_sets(seed):
    draw = random.Random(seed)
    for _ in range(400):
        described = [
            (draw.choice([None, 1, 2]), draw.choice([None, 0, 1]), draw.choice(USERS)) for _ in range(draw.randrange(9))
        ]
        request = f"{draw.choice(['auto', 'free'])}:{draw.randint(1, 5)}{draw.choice(['', '+xgmi'])}"

        assert chosen(request, *described) == best_by_trying(described, request), (request, described)
