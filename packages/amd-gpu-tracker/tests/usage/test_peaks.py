from __future__ import annotations

from amd_gpu_tracker.records.state import State
from amd_gpu_tracker.usage.peaks import MOST_PEAKS, Peak, raise_peaks, read_peaks, write_peaks
from amdgpu_discovery.host import Host


def peak(container_id: str, **fields: object) -> Peak:
    named = {"gpu": "0000:03:00.0/0", "name": "web", "engine": "docker", "vram_bytes": 5, "seen": 1.0}
    return Peak(**{"container_id": container_id, **named, **fields})


def test_the_most_that_was_seen_stays():
    peaks = raise_peaks({}, [peak("a", vram_bytes=9)])
    peaks = raise_peaks(peaks, [peak("a", vram_bytes=4, seen=2.0, name="")])

    assert list(peaks.values()) == [peak("a", vram_bytes=9, seen=2.0)]


def test_those_that_were_not_seen_for_longest_are_forgotten():
    peaks = raise_peaks({}, [peak(str(number)) for number in range(MOST_PEAKS)])
    peaks = raise_peaks(peaks, [peak("0", seen=2.0), peak("new")])

    assert len(peaks) == MOST_PEAKS
    assert [key[0] for key in peaks][:1] == ["2"]
    assert [key[0] for key in peaks][-2:] == ["0", "new"]


def test_what_is_written_is_read(tmp_path):
    state = State(Host(tmp_path))
    state.prepare()
    peaks = raise_peaks({}, [peak("a"), peak("b", name='"\n\x1b')])

    write_peaks(state, peaks)

    assert read_peaks(state) == peaks
