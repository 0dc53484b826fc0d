"""What a waiter is told."""

from __future__ import annotations

import pytest

from amd_gpu_tracker.errors import WaitRefused
from amd_gpu_tracker.records.lease import ProcessId
from amd_gpu_tracker.waiting.sentences import got, parse_duration, waiting_for
from amd_gpu_tracker.waiting.ticket import Ticket


def ticket(name, count):
    return Ticket(
        number=1,
        name=name,
        request="0",
        count=count,
        among=(0,),
        since=1.0,
        waiter=ProcessId(pid=1, start=1),
        boot_id="",
        namespace="",
    )


def test_a_waiter_is_told_who_is_before_it():
    before = [ticket("train-3", 4), ticket("build-7", 1)]

    said = waiting_for(2, free=1, fitting=8, host_total=8, before=before)

    assert said == "waiting for 2 GPUs: 1 free of 8, 2 jobs before this one (train-3: 4 GPUs, build-7: 1)"


@pytest.mark.parametrize(
    ("count", "before", "said"),
    [
        (1, [], "waiting for 1 GPU: 1 free of 8"),
        (2, [ticket("a", 1)], "waiting for 2 GPUs: 1 free of 8, 1 job before this one (a: 1 GPU)"),
        (
            1,
            [ticket("a", 1), *[ticket("b", 2)] * 198],
            "waiting for 1 GPU: 1 free of 8, 199 jobs before this one (a: 1 GPU, b: 2, b: 2, b: 2, b: 2 and 194 more)",
        ),
    ],
)
def test_numbers_agree_with_their_nouns(count, before, said):
    assert waiting_for(count, free=1, fitting=8, host_total=8, before=before) == said


@pytest.mark.parametrize(
    ("fitting", "said"),
    [(1, "waiting for 1 GPU: 0 free of 1 that fits"), (2, "waiting for 1 GPU: 0 free of 2 that fit")],
)
def test_only_gpus_that_fit_are_counted(fitting, said):
    assert waiting_for(1, free=0, fitting=fitting, host_total=8, before=[]) == said


def test_who_is_next_is_told_what_can_be_done():
    said = waiting_for(1, free=0, fitting=8, host_total=8, before=[], hint="to leave out user 1000, ignore it")

    assert said == "waiting for 1 GPU: 0 free of 8; to leave out user 1000, ignore it"


@pytest.mark.parametrize(
    ("numbers", "seconds", "said"),
    [
        ((2, 3), 252.9, "GPUs 2 and 3 after 4 min 12 s"),
        ((0,), 0.2, "GPU 0 after 0 s"),
        ((0, 1, 7), 3600 * 26 + 61, "GPUs 0, 1 and 7 after 26 h 1 min"),
        ((5,), None, "GPU 5"),
    ],
)
def test_a_job_is_told_what_it_got(numbers, seconds, said):
    assert got(numbers, seconds) == said


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("5", 5), ("0", 0)]
)
def test_a_duration_has_a_unit(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["s", "1.5h", "-1s", "1 h", "10min", "1h30m", "٣s", "9" * 100, "inf", "s" * 1000])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(WaitRefused, match=r"^'.{1,20}' is not a time to wait \(write 30s, 10m or 2h\)$"):
        parse_duration(text)
