"""Programs that move nothing are ended: a clock and a counter in the middle, real processes at the rim."""

from __future__ import annotations

import io
import subprocess

import pytest

from amd_gpu_images.bounds import ImageError, Reading
from amd_gpu_images.registries import transfer
from amd_gpu_images.registries.transfer import Stall, Watched, read_printed, run_until_stalled


def test_a_program_that_moves_is_not_idle_however_long_it_takes():
    counts, times = iter([0, 5000, 5000, 5100, 5200]), iter([0.0, 100.0, 100.0, 200.0, 221.0])
    watch = Stall(lambda: next(counts), 120.0, lambda: next(times))

    assert [watch.is_over() for _ in range(3)] == [False, False, True]


def test_a_program_that_prints_nothing_and_moves_nothing_is_ended(monkeypatch):
    monkeypatch.setattr(transfer, "SILENT_TRANSFER_SECONDS", 0.1)

    with pytest.raises(ImageError) as caught:
        read_printed(["sleep", "1000"], "docker://app:1", Reading())

    assert str(caught.value) == "sleep moved no byte for 0.1 seconds (try again)"


def test_a_copy_that_moves_nothing_is_ended(monkeypatch):
    monkeypatch.setattr(transfer, "SECONDS_OF_COPY", 0.1)

    assert run_until_stalled(["sleep", "1000"]).problem == "sleep moved no byte for 0.1 seconds"


def test_a_copy_that_fails_has_its_words_and_its_exit_code():
    answer = run_until_stalled(["sh", "-c", "echo no room >&2; exit 3"])

    assert (answer.succeeded, answer.errors, answer.exit_code) == (False, "no room\n", 3)
    assert run_until_stalled(["true"]).succeeded
    assert run_until_stalled(["no-such-program"]).problem == "no-such-program cannot be run: it does not exist"


def test_everything_that_a_program_prints_is_read():
    with subprocess.Popen(["seq", "100000"], stdout=subprocess.PIPE) as printing:
        assert io.BufferedReader(Watched(printing)).read().endswith(b"\n99999\n100000\n")
