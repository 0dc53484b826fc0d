"""What the driver says of a GPU, and what becomes of a driver that does not answer."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from amdgpu_discovery.health.attributes import Measured
from amdgpu_discovery.health.reading import Health, judge, read_health
from amdgpu_discovery.recording import record_profile
from amdgpu_discovery.recording.profile_json import format_profile, parse_profile
from amdgpu_discovery.untrusted.bounded_files import UNREAPED, FileAnswer, read_in_child
from amdgpu_discovery.untrusted.plain_json import loads
from amdgpu_simulator import build_host, load_profile

ADDRESSES = ("0000:03:00.0", "0000:26:00.0", "0000:43:00.0", "0000:63:00.0")
ILL = {
    "ras/umc_err_count": "ue: 2\nce: 17\nde: 1",
    "ras/gfx_err_count": "ue: 1\nce: 0",
    "ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P",
    "hwmon/hwmon3/temp1_label": "edge",
    "hwmon/hwmon3/temp1_input": "61000",
    "hwmon/hwmon3/temp2_label": "junction",
    "hwmon/hwmon3/temp2_input": "94000",
    "hwmon/hwmon3/temp2_crit": "100000",
    "hwmon/hwmon3/power1_average": "412000000",
    "hwmon/hwmon3/power1_cap": "560000000",
    "current_link_width": "16",
    "max_link_width": "16",
}


@pytest.fixture
def host_with(tmp_path: Path):
    """Return a function that makes a host of four GPUs, of which GPU 1 says this of its health."""

    def build(health: dict[str, str]):
        profile = load_profile("mi210-4")
        gpus = [gpu.replace(health=health) if gpu.pci_address == ADDRESSES[1] else gpu for gpu in profile.gpus]
        return build_host(tmp_path / "host", profile.replace(gpus=tuple(gpus)), bare=True)

    return build


def function(host, address=ADDRESSES[1]) -> Path:
    return Path(host.path(f"/sys/module/amdgpu/drivers/pci:amdgpu/{address}"))


def read_all(host):
    """Read with little time, because a driver may hang, and with more where a busy machine has not read all in it."""
    for seconds in (0.4, 4, 40):
        health = read_health(host, ADDRESSES, seconds=seconds)
        if all(each.is_hanging or each.measured.vram_total for each in health.values()):
            break
    return health


def test_values_of_the_driver_are_measured(host_with):
    host = host_with(ILL)

    health = read_health(host, ADDRESSES)

    assert health[ADDRESSES[1]].measured == Measured(
        errors=(("correctable", 17), ("deferred", 1), ("uncorrectable", 3)),
        bad_pages=2,
        bad_page_limit=655,
        temperature=94.0,
        temperature_limit=100.0,
        watts=412.0,
        watts_limit=560.0,
        vram_total=68702699520,
        link_width=16,
        link_width_limit=16,
    )
    assert (health[ADDRESSES[1]].verdict, health[ADDRESSES[1]].reasons) == (
        "suspect",
        ("3 uncorrectable errors since the driver was loaded", "2 pages of its memory are retired"),
    )
    assert health[ADDRESSES[0]].verdict == ""


@pytest.mark.parametrize(
    ("measured", "verdict", "reasons"),
    [
        (Measured(), "", []),
        (Measured(errors=(("correctable", 5000),)), "", []),
        (Measured(bad_pages=1, bad_page_limit=9), "suspect", ["1 page of its memory is retired"]),
        (Measured(bad_pages=9, bad_page_limit=9), "suspect", ["9 pages of its memory are retired"]),
        (
            Measured(bad_pages=10, bad_page_limit=9),
            "sick",
            ["10 pages of its memory are retired, and the limit is 9"],
        ),
        (Measured(temperature=99.0, temperature_limit=100.0), "", []),
        (Measured(temperature=101.0, temperature_limit=100.0), "suspect", ["101 C, and its limit is 100 C"]),
        (Measured(link_width=8, link_width_limit=16), "suspect", ["its link has 8 of 16 lanes"]),
        (Measured(link_width=8, link_width_limit=8), "", []),
    ],
)
def test_the_verdict_says_why(measured, verdict, reasons):
    assert judge(measured) == (verdict, reasons)


def test_without_errors_the_counters_are_not_read(host_with):
    host = host_with(ILL)

    assert read_health(host, ADDRESSES, with_errors=False)[ADDRESSES[1]].measured.errors == ()


def test_a_driver_that_hangs_makes_its_gpu_sick_and_the_others_are_read(host_with):
    host = host_with({"hwmon/hwmon3/temp2_label": "junction"})
    os.mkfifo(function(host) / "hwmon" / "hwmon3" / "temp2_input")

    health = read_all(host)

    assert (health[ADDRESSES[1]].verdict, health[ADDRESSES[1]].reasons) == (
        "sick",
        ("reading hwmon/hwmon3/temp2_input ends with no answer",),
    )
    assert [health[address].verdict for address in (ADDRESSES[0], *ADDRESSES[2:])] == ["", "", ""]
    assert health[ADDRESSES[3]].measured.vram_total == 68702699520


def test_all_drivers_that_hang_take_no_longer_than_the_limit(host_with):
    host = host_with({})
    for address in ADDRESSES:
        (function(host, address) / "gpu_busy_percent").unlink(missing_ok=True)
        os.mkfifo(function(host, address) / "gpu_busy_percent")

    assert any(
        read_health(host, ADDRESSES, seconds=seconds)[ADDRESSES[0]].verdict == "sick" for seconds in (0.4, 4, 40)
    )


@pytest.mark.parametrize("content", [b"", b"ue", b"ue: \xff\nce", b"ue: 99999999999999999999999\n", b"x" * 2_000_000])
def test_half_written_and_huge_files_say_nothing(host_with, content):
    host = host_with({})
    (function(host) / "ras").mkdir()
    (function(host) / "ras" / "umc_err_count").write_bytes(content)

    assert read_health(host, ADDRESSES)[ADDRESSES[1]].verdict == ""


def test_a_gpu_that_sleeps_is_not_asked(host_with):
    host = host_with({**ILL, "power/runtime_status": "suspended"})

    assert read_health(host, ADDRESSES)[ADDRESSES[1]] == Health(is_asleep=True)


@pytest.fixture
def starved(monkeypatch):
    """Let the child that reads have work to do for ever, as on a machine with more work than it can do."""

    def work(*_):
        while True:
            pass

    monkeypatch.setattr("amdgpu_discovery.untrusted.bounded_files._read", work)


@pytest.mark.usefixtures("starved")
def test_a_reader_that_only_lacks_a_processor_says_nothing_of_the_driver(tmp_path):
    assert read_in_child([[f"{tmp_path}/a"], [f"{tmp_path}/b"]], seconds=0.2) == {}


@pytest.mark.usefixtures("starved")
def test_a_gpu_for_which_there_is_no_time_is_neither_sick_nor_well(host_with):
    health = read_health(host_with({}), ADDRESSES, seconds=0.2)

    assert [(each.verdict, each.is_known) for each in health.values()] == [("", False)] * 4


def test_an_answer_is_a_text_or_an_error(tmp_path):
    (tmp_path / "text").write_text("16\n")

    paths = [f"{tmp_path}/{name}" for name in ("text", "missing")]

    assert read_in_child([paths], seconds=5) == {
        paths[0]: FileAnswer(text="16"),
        paths[1]: FileAnswer(error=errno.ENOENT),
    }


def test_a_sick_host_can_be_recorded_and_built_again(host_with, tmp_path):
    host = host_with({**ILL, "mem_info_vram_used": "42949672960"})

    recorded = record_profile(host, "sick")

    assert next(gpu.health for gpu in recorded.gpus if gpu.pci_address == ADDRESSES[1]) == {
        **ILL,
        "mem_info_vram_used": "42949672960",
    }
    again = build_host(tmp_path / "again", recorded, bare=True)
    assert read_health(again, ADDRESSES) == read_health(host, ADDRESSES)


def test_a_child_that_has_answered_is_collected_at_once(tmp_path):
    (tmp_path / "one").write_text("1\n")
    # A killed child of an earlier test may be there still.
    earlier = children()

    for _ in range(50):
        assert read_in_child([[f"{tmp_path}/one"], [f"{tmp_path}/none"]], seconds=20) == {
            f"{tmp_path}/one": FileAnswer(text="1"),
            f"{tmp_path}/none": FileAnswer(error=errno.ENOENT),
        }
        assert children() <= earlier


def children():
    return set(Path("/proc/thread-self/children").read_text().split())


def test_a_file_that_hangs_keeps_no_lock_of_the_caller(tmp_path):
    os.mkfifo(tmp_path / "hangs")

    # A child that has not begun when its time is over, as on a busy machine, has the lock for a moment more.
    assert any(_is_free_after(tmp_path, seconds) for seconds in (0.2, 2, 20))


def _is_free_after(directory, seconds):
    with open(directory / "lock", "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        read_in_child([[str(directory / "hangs")]], seconds=seconds)
    with open(directory / "lock", encoding="utf-8") as free:
        try:
            fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_a_screen_asks_once_for_errors_and_keeps_them(host_with):
    host = host_with(ILL)
    first = read_health(host, ADDRESSES)
    for path in (function(host) / "ras").iterdir():
        path.unlink()
    (function(host) / "hwmon" / "hwmon3" / "temp2_input").write_text("71000\n")

    again = read_health(host, ADDRESSES, with_errors=False, earlier=first)[ADDRESSES[1]]

    assert (again.verdict, again.reasons) == (first[ADDRESSES[1]].verdict, first[ADDRESSES[1]].reasons)
    assert again.measured == first[ADDRESSES[1]].measured.replace(temperature=71.0)


def test_chips_that_count_from_0_again_forget_no_error(host_with):
    host = host_with(ILL)
    first = read_health(host, ADDRESSES)
    (function(host) / "ras" / "umc_err_count").write_text("ue: 0\nce: 18\n")

    again = read_health(host, ADDRESSES, earlier=first)[ADDRESSES[1]]

    assert again.measured.errors == (("correctable", 18), ("deferred", 1), ("uncorrectable", 3))
    assert again.verdict == "suspect"


def test_a_screen_asks_a_driver_that_hangs_once(host_with):
    host = host_with({"hwmon/hwmon3/temp2_label": "junction"})
    temperature = function(host) / "hwmon" / "hwmon3" / "temp2_input"
    os.mkfifo(temperature)
    first = read_all(host)
    temperature.unlink()
    temperature.write_text("61000\n")

    again = read_health(host, ADDRESSES, with_errors=False, earlier=first)
    later = read_health(host, ADDRESSES, earlier=first)

    assert (first[ADDRESSES[1]].is_hanging, again) == (True, first)
    assert (later[ADDRESSES[1]].verdict, later[ADDRESSES[1]].measured.temperature) == ("", 61.0)


def test_a_reading_reaps_a_child_that_an_earlier_one_left(host_with):
    left = os.posix_spawn("/bin/true", ["true"], {})
    UNREAPED.append(left)
    # It stays a zombie until somebody asks for it.
    os.waitid(os.P_PID, left, os.WEXITED | os.WNOWAIT)

    read_health(host_with({}), ADDRESSES)

    assert left not in UNREAPED
    with pytest.raises(ChildProcessError):
        os.waitpid(left, os.WNOHANG)


def test_a_gpu_that_is_suspended_keeps_its_errors(host_with):
    host = host_with(ILL)
    first = read_health(host, ADDRESSES)
    (function(host) / "power").mkdir(exist_ok=True)
    (function(host) / "power" / "runtime_status").write_text("suspended\n")

    again = read_health(host, ADDRESSES, with_errors=False, earlier=first)[ADDRESSES[1]]

    assert (again.is_asleep, again.verdict, again.measured.temperature) == (True, "suspect", None)


@pytest.mark.parametrize(
    ("said", "recorded", "verdict"),
    [
        ({"gpu_busy_percent": "[EIO]"}, {"gpu_busy_percent": "[EIO]"}, "sick"),
        ({"gpu_busy_percent": "[ETIMEDOUT]"}, {"gpu_busy_percent": "[ETIMEDOUT]"}, "sick"),
        (
            # Asked, it would wake up.
            {"power/runtime_status": "suspended", "gpu_busy_percent": "[EIO]"},
            {"power/runtime_status": "suspended"},
            "",
        ),
    ],
)
def test_a_driver_that_fails_is_recorded_and_fails_again(host_with, tmp_path, said, recorded, verdict):
    described = record_profile(host_with(said), "sick")
    again = build_host(tmp_path / "again", parse_profile(loads(format_profile(described)), name="sick", models={}))

    assert next(gpu.health for gpu in described.gpus if gpu.pci_address == ADDRESSES[1]) == recorded
    assert read_all(again)[ADDRESSES[1]].verdict == verdict
