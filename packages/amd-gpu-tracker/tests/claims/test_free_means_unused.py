"""`free:` and `auto:` on a host where programs use GPUs without a reservation, and GPUs are sick or drained."""

from __future__ import annotations

import pytest

from amd_gpu_tracker import Tracker
from amd_gpu_tracker.book.drains import Drain, write_drains
from amd_gpu_tracker.errors import GpusRefused
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.recording.profile import SimulatedProcess, SimulatedUse
from amdgpu_simulator import build_host, load_profile

GIB = 2**30


@pytest.fixture
def host_of(tmp_path):
    """Return a function that makes a tracked host of eight MI300X: memory and errors by number of the GPU."""

    def build(*, vram=None, errors=(), busy=None):
        plain = load_profile("mi300x-8")
        order = sorted(range(8), key=lambda at: plain.gpus[at].pci_address)
        gpus = list(plain.gpus)
        for number, position in enumerate(order):
            health = {"ras/umc_err_count": "ue: 2\nce: 0\n"} if number in errors else {}
            gpus[position] = gpus[position].replace(health=health, busy_percent=(busy or {}).get(number, 0))
        processes = tuple(
            SimulatedProcess(
                pid=4000 + number,
                name="python3",
                uid=1000,
                uses=(SimulatedUse(gpu=order[number], vram_bytes=used, client_id=number + 1, in_kfd=True),),
            )
            for number, used in (vram or {}).items()
        )
        host = build_host(tmp_path / "host", plain.replace(gpus=tuple(gpus), processes=processes), bare=True)
        with open(host.path("/etc/passwd"), "w", encoding="utf-8") as file:
            file.write("carol:x:1000:1000::/home/carol:/bin/sh\n")
        Tracker(host).enable()
        Tracker(host).set_accessibility("all", exclusive=True)
        return host

    return build


def test_a_free_gpu_is_one_that_nobody_uses(host_of):
    tracker = Tracker(host_of(vram={0: 40 * GIB, 1: GIB}, busy={2: 97}))

    assert tracker.reserve("free:1", name="a").numbers == (3,)


def test_a_gpu_with_one_mebibyte_in_use_is_free(host_of):
    assert Tracker(host_of(vram={0: 2**20})).reserve("free:1", name="a").numbers == (0,)


def test_auto_takes_used_gpus_last(host_of):
    tracker = Tracker(host_of(vram=dict.fromkeys(range(7), GIB)))

    assert tracker.reserve("auto:1", name="a").numbers == (7,)
    assert tracker.reserve("auto:1", name="b").numbers == (0,)


def test_a_gpu_by_its_number_is_given_whoever_uses_it(host_of):
    assert Tracker(host_of(vram={0: 40 * GIB})).reserve("0", name="a").numbers == (0,)


def test_a_refusal_says_which_program_of_whom_uses_the_gpus(host_of):
    tracker = Tracker(host_of(vram=dict.fromkeys(range(8), GIB)))

    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("free:1", name="a")

    assert str(refused.value).startswith(
        "free:1: 0 of 8 GPUs are free (0 used by process 4000 (python3 of carol) without a reservation; "
    )


def test_a_gpu_with_errors_is_not_free_and_auto_takes_it_last(host_of):
    tracker = Tracker(host_of(errors=range(7)))

    assert tracker.reserve("free:1", name="a").numbers == (7,)
    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("free:1", name="b")
    assert "suspect: 2 uncorrectable errors since the driver was loaded" in str(refused.value)
    assert tracker.reserve("auto:1", name="c").numbers == (0,)


def test_a_drained_gpu_is_chosen_by_nobody(host_of):
    host = host_of()
    keys = [gpu.key for gpu in locate_gpus(host)]
    write_drains(host, [Drain(key=key, reason="fan swap", since=1.0) for key in keys[:7]])
    tracker = Tracker(host)

    assert tracker.reserve("auto:1", name="a").numbers == (7,)
    with pytest.raises(GpusRefused) as refused:
        tracker.reserve("auto:1", name="b")
    assert "(0-6 drained: fan swap; 7 exclusive and in use)" in str(refused.value)
