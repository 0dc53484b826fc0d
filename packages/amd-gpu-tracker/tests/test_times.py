"""How lengths of time and moments are written and read."""

from __future__ import annotations

import time

import pytest

from amd_gpu_tracker.errors import WaitRefused
from amd_gpu_tracker.times import (
    format_age,
    format_minutes,
    format_past,
    parse_at_most,
    parse_duration,
    parse_moment,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-3, "0 seconds ago"),
        (0.4, "0 seconds ago"),
        (1, "1 second ago"),
        (59.9, "59 seconds ago"),
        (60, "1 minute ago"),
        (7199, "1 hour ago"),
        (7200, "2 hours ago"),
        (86400 * 400, "400 days ago"),
    ],
)
def test_how_long_ago_something_was_is_reported_in_one_unit(seconds, said):
    assert format_age(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "less than 1 min"),
        (59.9, "less than 1 min"),
        (60, "1 min"),
        (3599, "59 min"),
        (7800, "2 h 10 min"),
        (48 * 3600 - 1, "47 h 59 min"),
        (3 * 86400 + 7200, "3 d 2 h"),
    ],
)
def test_a_time_without_seconds_has_at_most_two_units(seconds, said):
    assert format_minutes(seconds) == said


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
def test_a_moment_of_another_day_is_reported_with_its_day(time_zone, past, said):
    time_zone("CET-1CEST,M3.5.0,M10.5.0/3")
    now, then = (time.mktime(time.strptime(each, "%Y-%m-%d %H:%M")) for each in ("2026-11-25 12:30", past))

    assert format_past(then, now=now) == said


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400), ("5", 5), ("0", 0)]
)
def test_a_duration_has_a_unit(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["s", "1.5h", "-1s", "1 h", "10min", "1h30m", "٣s", "9" * 100, "inf", "s" * 1000])
def test_a_text_that_is_no_duration_is_refused(text):
    with pytest.raises(WaitRefused, match=r"^'.{1,20}' is not a time to wait \(write 30s, 10m or 2h\)$"):
        parse_duration(text)


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
        ("today 18:00", "2026-11-25 18:00"),
        ("tomorrow 9:00", "2026-11-26 09:00"),
        ("Tomorrow", "2026-11-26 00:00"),
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
        ("yesterday", "'yesterday' is not a time"),
        ("Mo", "'Mo' is not a time"),
        ("Mon 25:00", "'Mon 25:00' is not a time"),
        ("2026-13-01", "'2026-13-01' is not a time"),
        ("99999-01-01", "'99999-01-01' is not a time"),
        ("2026-11-24", "2026-11-24 is in the past"),
        ("12:00 Mon", "'12:00 Mon' is not a time"),
        ("x" * 100, f"'{'x' * 40}' is not a time"),
    ],
)
def test_a_text_that_is_no_moment_to_come_is_refused_with_examples(written, said):
    now = time.mktime(time.strptime("2026-11-25 12:30", "%Y-%m-%d %H:%M"))

    with pytest.raises(WaitRefused) as refused:
        parse_moment(written, now=now)

    assert str(refused.value) == f"{said} (write Mon, Mon 08:00, 18:00, 2026-12-01 or '2026-12-01 08:00')"


def test_a_length_without_a_unit_is_refused_because_seconds_are_hardly_meant():
    with pytest.raises(WaitRefused) as refusal:
        parse_at_most("2", 86400)

    assert str(refusal.value) == "2 has no unit (write 2h for hours, or 2m for minutes)"
    assert [parse_at_most(text, 86400) for text in ("", "0", "2s", "2h")] == [0, 0, 2, 7200]
