"""What a waiter is told."""

from __future__ import annotations

import time

import pytest

from amd_gpu_tracker.errors import WaitRefused
from amd_gpu_tracker.records.lease import ProcessId
from amd_gpu_tracker.times import format_past, parse_duration, parse_moment
from amd_gpu_tracker.waiting.sentences import held_by, waiting_for
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


def test_who_waits_is_told_which_jobs_have_the_gpus_since_when(time_zone):
    time_zone("UTC")
    holders = [("ann's train", [2], 0.0), ("bob's sweep", [3, 4], 3600.0), ("c", [5], 7200.0), ("d", [6], 1.0)]

    assert held_by([], now=86000.0) == ""
    assert held_by(holders[:1], now=86000.0) == "; GPU 2: ann's train since 00:00"
    assert held_by([*holders, *holders[:1]], now=86000.0) == (
        "; GPU 2: ann's train since 00:00, GPUs 3 4: bob's sweep since 01:00, GPU 5: c since 02:00 and 2 more"
    )


@pytest.mark.parametrize(
    ("past", "said"),
    [
        ("2026-11-25 12:30", "12:30"),
        ("2026-11-25 00:00", "00:00"),
        ("2026-11-24 23:59", "Tue 23:59"),
        ("2026-11-19 12:31", "Thu 12:31"),
        ("2026-11-18 12:31", "2026-11-18 12:31"),
        # A clock that was set back meanwhile.
        ("2026-12-01 08:00", "2026-12-01 08:00"),
    ],
)
def test_a_moment_of_another_day_is_said_with_its_day(time_zone, past, said):
    time_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    now, then = (time.mktime(time.strptime(each, "%Y-%m-%d %H:%M")) for each in ("2026-11-25 12:30", past))

    assert format_past(then, now=now) == said


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("5", 5), ("0", 0)]
)
def test_a_duration_has_a_unit(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["s", "1.5h", "-1s", "1 h", "10min", "1h30m", "٣s", "9" * 100, "inf", "s" * 1000])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(WaitRefused, match=r"^'.{1,20}' is not a time to wait \(write 30s, 10m or 2h\)$"):
        parse_duration(text)


@pytest.fixture
def time_zone(monkeypatch):
    """Return a function that sets the time zone until the test ends."""
    with monkeypatch.context() as changed:

        def set_zone(name):
            changed.setenv("TZ", name)
            time.tzset()

        yield set_zone
    time.tzset()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # The clock says Wednesday, 2026-11-25 12:30:00.
        ("Mon", "2026-11-30 00:00"),
        ("monday", "2026-11-30 00:00"),
        ("Mon 08:00", "2026-11-30 08:00"),
        ("wed", "2026-12-02 00:00"),
        ("Wed 12:30", "2026-12-02 12:30"),
        ("Wed 13:00", "2026-11-25 13:00"),
        ("18:00", "2026-11-25 18:00"),
        ("8:00", "2026-11-26 08:00"),
        ("2026-12-01", "2026-12-01 00:00"),
        (" 2026-12-01 08:15 ", "2026-12-01 08:15"),
    ],
)
def test_a_moment_is_the_next_one_that_the_words_mean(time_zone, written, meant):
    time_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    now = time.mktime(time.strptime("2026-11-25 12:30", "%Y-%m-%d %H:%M"))

    assert time.strftime("%Y-%m-%d %H:%M", time.localtime(parse_moment(written, now=now))) == meant


def test_a_day_is_a_day_also_where_clocks_are_changed_before_it(time_zone):
    time_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    saturday = time.mktime((2026, 10, 24, 12, 0, 0, 0, 0, -1))

    assert parse_moment("Mon 12:00", now=saturday) - saturday == 49 * 3600


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("tomorrow", "'tomorrow' is not a time"),
        ("Mo", "'Mo' is not a time"),
        ("Mon 25:00", "'Mon 25:00' is not a time"),
        ("2026-13-01", "'2026-13-01' is not a time"),
        ("99999-01-01", "'99999-01-01' is not a time"),
        ("2026-11-24", "2026-11-24 is over"),
        ("12:00 Mon", "'12:00 Mon' is not a time"),
        ("x" * 100, f"'{'x' * 40}' is not a time"),
    ],
)
def test_what_is_no_moment_to_come_is_refused_with_examples(written, said):
    now = time.mktime(time.strptime("2026-11-25 12:30", "%Y-%m-%d %H:%M"))

    with pytest.raises(WaitRefused) as refused:
        parse_moment(written, now=now)

    assert str(refused.value) == f"{said} (write Mon, Mon 08:00, 18:00, 2026-12-01 or '2026-12-01 08:00')"
