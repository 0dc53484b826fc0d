"""Sums over reservations, and how they are shown."""

from __future__ import annotations

import json
import time

import pytest

from amd_gpu_sharing.report.page import MOST_BARS, Timeline, format_page
from amd_gpu_sharing.report.read import ReportError, parse_since
from amd_gpu_sharing.report.text import format_csv, format_json, format_report
from amd_gpu_sharing.report.totals import Names, make_report, split_days
from amd_gpu_tracker.watch.history.used import Used

HOUR = 3600.0
# 2026-11-02 00:00:00 in the time of the tests, which is UTC.
MONDAY = 1793577600.0
WEEK = {"since": MONDAY, "until": MONDAY + 7 * 24 * HOUR}
NAMES = Names({1000: "alice", 1001: "bob", None: "(not known)"}.__getitem__, {"a": "GPU 0", "b": "GPU 1"}.__getitem__)
USED = (
    Used(
        container_id="c1",
        gpus=("a", "b"),
        person=1000,
        since=MONDAY + HOUR,
        seconds=10 * HOUR,
        how="hook",
        busy=0.25,
        peak_bytes=3 << 30,
        image="rocm/pytorch",
    ),
    Used(container_id="c2", gpus=("a",), person=1001, since=MONDAY - HOUR, seconds=3 * HOUR, how="found"),
    Used(container_id="c3", gpus=("b",), person=1001, since=MONDAY + 47 * HOUR, seconds=2 * HOUR, how="running"),
    # It has the GPUs of c1.
    Used(container_id="c4", gpus=("a",), person=1000, since=MONDAY + HOUR, seconds=HOUR, how="hook", part_of="c1"),
)


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def report_of(*used, by="person"):
    return make_report(used, NAMES, by=by, **WEEK)


def timeline_of(*used):
    timeline = Timeline()
    assert list(timeline.watch(used)) == [*used]
    return timeline


def test_a_report_sums_the_use_of_each_person():
    assert format_report(report_of(*USED)) == (
        "From 2026-11-02 00:00 to 2026-11-09 00:00: 24.0 GPU-hours, 3 reservations\n"
        "\n"
        "Person  GPU-hours  Used  Idle  Starts     Peak\n"
        "alice        20.0   25%   75%       2  3.0 GiB  ####################\n"
        "bob           4.0     -     -       1        -  ####\n"
        "\n"
        "The end of 1 reservation was not recorded: counted up to the last sample\n"
    )


@pytest.mark.parametrize(
    ("by", "hours"),
    [
        ("gpu", {"GPU 0": 12.0, "GPU 1": 12.0}),
        ("image", {"rocm/pytorch": 20.0, "(not known)": 4.0}),
        ("day", {"2026-11-02": 22.0, "2026-11-03": 1.0, "2026-11-04": 1.0}),
    ],
)
def test_a_reservation_counts_for_the_part_of_it_within_the_time(by, hours):
    report = report_of(*USED, by=by)

    assert {total.title: total.gpu_seconds / HOUR for total in report.totals} == hours
    assert report.whole.gpu_seconds == 24 * HOUR


def test_json_and_csv_have_the_same_numbers():
    report = report_of(*USED)

    assert json.loads(format_json(report))["totals"] == [
        {"person": "alice", "gpu_hours": 20.0, "share_used": 0.25, "share_idle": 0.75, "starts": 2, "peak_gib": 3.0},
        {"person": "bob", "gpu_hours": 4.0, "share_used": None, "share_idle": None, "starts": 1, "peak_gib": None},
    ]
    assert format_csv(report) == (
        "person,gpu_hours,share_used,share_idle,starts,peak_gib\nalice,20.0,0.25,0.75,2,3.0\nbob,4.0,,,1,\n"
    )


def test_a_pod_stands_in_the_place_of_the_person():
    in_pod = [each.replace(person=None, pod="team-a/train-0") for each in USED[:1]]
    report = report_of(*in_pod, USED[1])

    titles = {total.title: total.gpu_seconds / HOUR for total in report.totals}
    assert titles == {"team-a/train-0": 20.0, "bob": 2.0}
    page = format_page(report, timeline_of(*in_pod, USED[1]), NAMES, host="h1")
    assert "<title>team-a/train-0: c1, " in page


def test_notes_say_what_is_not_known():
    uncertain = USED[1].replace(how="power")

    assert format_report(report_of(uncertain, None)).splitlines()[5:] == [
        "There is no record of how busy GPUs were: 'sudo amd-ctk report enable' starts one",
        "The end of 1 reservation was not recorded: counted up to the last sample",
        "1 line of the history could not be read",
    ]


def test_a_report_about_nothing_is_one_line():
    assert format_report(report_of()) == "From 2026-11-02 00:00 to 2026-11-09 00:00: 0.0 GPU-hours, 0 reservations\n"


def test_a_name_is_no_formula_of_a_spreadsheet_and_no_markup():
    names = Names(lambda _: "=cmd|' /C calc'!A0\x1b[2J", lambda _: "<script>x</script>")
    report = make_report(USED, names, by="person", **WEEK)
    page = format_page(report, timeline_of(*USED), names, host="h<1>")

    assert format_csv(report).splitlines()[1].startswith("'=cmd|' /C calc'!A0")
    assert "\x1b" not in format_csv(report) + format_report(report) + page
    assert ("<script" in page, "h&lt;1&gt;" in page, "&lt;script&gt;" in page) == (False, True, True)


def test_the_page_has_a_bar_for_each_gpu_of_each_reservation_and_loads_nothing():
    page = format_page(report_of(*USED), timeline_of(*USED), NAMES, host="server")

    assert page.count("<rect ") == 4
    assert "<title>alice: c1, 2026-11-02 01:00, 10.00 h, at work 25%</title>" in page
    assert ("http" in page, "<script" in page, "@import" in page) == (False, False, False)


def test_a_page_keeps_no_more_reservations_than_it_draws_and_says_how_many_there_are():
    used = [USED[0]] * MOST_BARS
    timeline = timeline_of(*used)
    page = format_page(report_of(*used), timeline, NAMES, host="server")

    assert (len(timeline.bars), page.count("<rect ")) == (MOST_BARS, MOST_BARS)
    assert "The first 20000 of 40000 bars are shown; choose a shorter time to see all." in page


def test_days_have_23_or_25_hours_where_clocks_are_set(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    # From Saturday noon to Monday noon; clocks went back on Sunday, 2026-10-25.
    begin = time.mktime((2026, 10, 24, 12, 0, 0, 0, 0, -1))
    end = time.mktime((2026, 10, 26, 12, 0, 0, 0, 0, -1))

    hours = [(day, (last - first) / HOUR) for day, first, last in split_days(begin, end, {})]

    assert hours == [("2026-10-24", 12.0), ("2026-10-25", 25.0), ("2026-10-26", 12.0)]


@pytest.mark.parametrize(
    ("text", "begin"), [("12h", MONDAY - 12 * HOUR), ("7d", MONDAY - 168 * HOUR), ("2026-11-01", MONDAY - 24 * HOUR)]
)
def test_a_report_begins_as_it_is_asked(text, begin):
    assert parse_since(text, MONDAY) == begin


@pytest.mark.parametrize("text", ["", "7", "d", "-7d", "7 d", "999999d", "2026-13-01", "yesterday"])
def test_a_since_that_is_no_length_and_no_day_is_refused(text):
    with pytest.raises(ReportError) as refused:
        parse_since(text, MONDAY)

    assert str(refused.value) == (
        f"--since {text} is neither a length of time nor a day (write 12h, 7d, 2w or a day such as 2026-11-01)"
    )
