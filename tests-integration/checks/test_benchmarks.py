"""What the benchmarks need exists: they run by hand, and so notice late that it does not."""

from __future__ import annotations

from pathlib import Path

from amdgpu_discovery import locate_gpus

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_benchmarks_can_build_their_largest_host(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from large_host import build_large_host

    host = build_large_host(tmp_path / "host", 512)

    assert len(locate_gpus(host)) == 512
