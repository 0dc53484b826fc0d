"""Format a report as a table with a bar in each row, as JSON, and as CSV."""

from __future__ import annotations

import csv
import io
from datetime import datetime

from amd_gpu_sharing.report.totals import Report, Total
from amdgpu_discovery.command_line.listing import format_columns, to_json
from amdgpu_discovery.untrusted.plain_text import printable

HEADERS = {"person": "Person", "gpu": "GPU", "image": "Image", "day": "Day"}
BAR = 20
LONGEST_TITLE = 40
# Spreadsheets treat a cell that begins with one of these as a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r")
FIELDS = ("gpu_hours", "share_used", "share_idle", "starts", "peak_gib")


def format_report(report: Report) -> str:
    """Format a report for people."""
    when = f"From {moment(report.since)} to {moment(report.until)}"
    head = f"{when}: {_hours(report.whole)} GPU-hours, {_format_starts(report.whole.starts)}"
    if not report.totals:
        return f"{head}\n"
    largest = max(total.gpu_seconds for total in report.totals)
    rows = [_cells(total, largest) for total in report.totals]
    header = (HEADERS[report.by], "GPU-hours", "Used", "Idle", "Starts", "Peak", "")
    table = format_columns([header, *rows], of_numbers=range(1, 6))
    return "\n".join([head, "", table, *_notes(report)]) + "\n"


def format_json(report: Report) -> str:
    """Format a report as JSON; shares are from 0 to 1, times in seconds since 1970 (UTC)."""
    document = {
        "since": round(report.since),
        "until": round(report.until),
        "by": report.by,
        "totals": [{report.by: total.title, **_numbers(total)} for total in report.totals],
        "all": _numbers(report.whole),
        "ends_not_known": report.uncertain,
        "lines_not_read": report.unreadable,
    }
    return to_json(document) + "\n"


def format_csv(report: Report) -> str:
    """Format a report as CSV, with a line of headers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([report.by, *FIELDS])
    for total in report.totals:
        numbers = _numbers(total)
        writer.writerow([_cell(total.title), *("" if numbers[name] is None else numbers[name] for name in FIELDS)])
    return text.getvalue()


def moment(at: float) -> str:
    """Format a moment in local time."""
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}"


def share(value: float | None) -> str:
    """Format a share in percent, "-" if it is unknown."""
    return "-" if value is None else f"{value:.0%}"


def _numbers(total: Total) -> dict[str, object]:
    used, idle = total.share_used, total.share_idle
    return {
        "gpu_hours": round(total.gpu_seconds / 3600, 4),
        "share_used": None if used is None else round(used, 4),
        "share_idle": None if idle is None else round(idle, 4),
        "starts": total.starts,
        "peak_gib": None if total.peak_bytes is None else round(total.peak_bytes / 2**30, 2),
    }


def _cells(total: Total, largest: float) -> tuple[str, ...]:
    peak = "-" if total.peak_bytes is None else f"{total.peak_bytes / 2**30:.1f} GiB"
    bar = "#" * round(BAR * total.gpu_seconds / largest) if largest else ""
    title = printable(total.title)[:LONGEST_TITLE]
    return title, _hours(total), share(total.share_used), share(total.share_idle), str(total.starts), peak, bar


def _notes(report: Report) -> list[str]:
    notes = []
    if report.whole.seen_seconds == 0:
        notes.append("There is no record of how busy GPUs were: 'sudo amd-ctk report enable' starts one")
    if report.uncertain:
        notes.append(f"The end of {_format_starts(report.uncertain)} was not recorded: counted up to the last sample")
    if report.unreadable:
        notes.append(f"{report.unreadable} line{'s' * (report.unreadable > 1)} of the history could not be read")
    return ["", *notes] if notes else []


def _hours(total: Total) -> str:
    return f"{total.gpu_seconds / 3600:.1f}"


def _format_starts(starts: int) -> str:
    return f"{starts} reservation{'' if starts == 1 else 's'}"


def _cell(title: str) -> str:
    text = printable(title)
    return f"'{text}" if text.startswith(FORMULA) else text
