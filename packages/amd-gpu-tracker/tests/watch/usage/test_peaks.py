from __future__ import annotations

from pathlib import Path

import pytest

from amd_gpu_tracker.book.state import State
from amd_gpu_tracker.watch.usage.peaks import MOST_PEAKS, Peak, read_peaks, update_peaks, write_peaks
from amdgpu_discovery.host import Host


def peak(container_id: str, **fields: object) -> Peak:
    named = {"gpu": "0000:03:00.0/0", "name": "web", "engine": "docker", "vram_bytes": 5, "seen": 1.0}
    return Peak(**{"container_id": container_id, **named, **fields})


def test_the_most_that_was_seen_stays():
    peaks = update_peaks({}, [peak("a", vram_bytes=9)])
    peaks = update_peaks(peaks, [peak("a", vram_bytes=4, seen=2.0, name="")])

    assert list(peaks.values()) == [peak("a", vram_bytes=9, seen=2.0)]


def test_the_most_of_each_memory_stays():
    peaks = update_peaks({}, [peak("a", vram_bytes=9, gtt_bytes=1)])
    peaks = update_peaks(peaks, [peak("a", vram_bytes=4, gtt_bytes=7)])

    assert list(peaks.values()) == [peak("a", vram_bytes=9, gtt_bytes=7)]


def test_those_that_were_not_seen_for_longest_are_forgotten():
    peaks = update_peaks({}, [peak(str(number)) for number in range(MOST_PEAKS)])
    peaks = update_peaks(peaks, [peak("0", seen=2.0), peak("new")])

    assert len(peaks) == MOST_PEAKS
    assert [key[0] for key in peaks][:1] == ["2"]
    assert [key[0] for key in peaks][-2:] == ["0", "new"]


def test_a_user_cannot_make_the_peaks_of_others_forgotten():
    peaks = update_peaks({}, [peak("real"), peak("theirs", user=1001)])
    peaks = update_peaks(peaks, [peak(str(number), user=1000) for number in range(2000)])

    assert [key[0] for key in peaks] == ["real", "theirs", *map(str, range(1968, 2000))]


def test_a_user_cannot_raise_the_peak_of_a_container_of_root():
    peaks = update_peaks({}, [peak("a", vram_bytes=1), peak("a", vram_bytes=9, user=1000)])

    assert list(peaks.values()) == [peak("a", vram_bytes=1), peak("a", vram_bytes=9, user=1000)]


def test_the_largest_peaks_are_read(tmp_path):
    state = State(Host(tmp_path))
    state.prepare()
    ids = [f"{number:03}{chr(0x1F600) * 125}" for number in range(MOST_PEAKS)]
    peaks = update_peaks({}, [peak(each, name="\x1b" * 128, user=number) for number, each in enumerate(ids)])

    write_peaks(state, peaks)

    assert len(read_peaks(state)) == 1000


def test_a_file_that_is_too_large_is_forgotten(tmp_path):
    state = State(Host(tmp_path))
    state.prepare()
    Path(state.run_directory, "peaks.json").write_bytes(b" " * (5 << 20))

    assert read_peaks(state) == {}


@pytest.mark.parametrize("fields", [{"user": "root"}, {"container_id": "a\x1b"}, {"container_id": "a" * 129}])
def test_a_peak_with_invalid_fields_is_left_out(tmp_path, fields):
    state = State(Host(tmp_path))
    state.prepare()
    write_peaks(state, update_peaks({}, [peak("b"), peak("a").replace(**fields)]))

    assert list(read_peaks(state).values()) == [peak("b")]


def test_written_peaks_read_as_the_same(tmp_path):
    state = State(Host(tmp_path))
    state.prepare()
    peaks = update_peaks({}, [peak("a"), peak("b", name='"\n\x1b')])

    write_peaks(state, peaks)

    assert read_peaks(state) == peaks
