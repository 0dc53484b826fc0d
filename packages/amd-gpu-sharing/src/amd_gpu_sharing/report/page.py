"""Format a report as one HTML page without scripts or external links: a timeline of the GPUs, and the table."""

from __future__ import annotations

import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from amd_gpu_sharing.report.text import HEADERS, moment, share
from amd_gpu_sharing.report.totals import Names, Report
from amd_gpu_tracker import Used
from amdgpu_discovery.command_line.web_page import format_web_page, text
from amdgpu_discovery.files import replace_file

WIDTH, ROW, LEFT, TOP = 1000, 22, 90, 24
TICKS = 6
# People who cannot tell red from green can distinguish them. Persons with the most use get the first ones.
COLOURS = ("#3b7dd8", "#e07b1a", "#2f9e77", "#c2417f", "#8a63d2", "#b59a12", "#5b6b7b", "#d64f3c")
# More bars than pixels show nothing; the page says how many of them it shows.
MOST_BARS = 20000
STYLE = """
svg { width: 100%; height: auto; min-width: 40rem; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; } svg .grid { stroke: var(--line); }
th:first-child, td:first-child { text-align: left; min-width: 7rem; overflow-wrap: anywhere; }
.key { display: inline-block; margin-right: 1rem; } .key i { display: inline-block; width: .8rem; height: .8rem;
  border-radius: 2px; margin-right: .3rem; }
"""


class Timeline:
    """Collects the bars of a page while the report reads the history, so that no more of it stays in memory."""

    def __init__(self) -> None:
        self.bars: list[tuple[Used, str]] = []
        self.count = 0
        self.gpus: set[str] = set()
        # Of each pod and person.
        self.seconds: defaultdict[tuple[str, int | None], float] = defaultdict(float)

    def watch(self, history: Iterable[Used | None]) -> Iterator[Used | None]:
        """Yield the history unchanged, and record its bars."""
        for used in history:
            if used is not None and not used.part_of:
                self._note(used)
            yield used

    def _note(self, used: Used) -> None:
        self.count += len(used.gpus)
        self.gpus.update(used.gpus)
        self.seconds[used.pod, used.person] += used.gpu_seconds
        if len(self.bars) < MOST_BARS:
            self.bars += [(used, gpu) for gpu in used.gpus]


def write_page(path: str, report: Report, timeline: Timeline, names: Names) -> None:
    """Write the page of this host to a file; FileError."""
    replace_file(path, format_page(report, timeline, names, host=platform.node()).encode())


def format_page(report: Report, timeline: Timeline, names: Names, *, host: str) -> str:
    """Return the page as HTML."""
    title = f"GPU use of {host}, {moment(report.since)} to {moment(report.until)}"
    colour_by_person = _colours(timeline, names)
    parts = [
        f"<p>{report.whole.gpu_seconds / 3600:.1f} GPU-hours, {report.whole.starts} reservations.</p>",
        '<div class="scroll">',
        *_draw(report, timeline, names, colour_by_person),
        "</div><p>",
        *(
            f'<span class="key"><i style="background:{colour}"></i>{text(person)}</span>'
            for person, colour in colour_by_person.items()
        ),
        '</p><div class="scroll">',
        *_table(report),
        "</div>",
    ]
    return format_web_page(title, parts, style=STYLE)


def _draw(report: Report, timeline: Timeline, names: Names, colours: dict[str, str]) -> Iterator[str]:
    gpus = sorted(timeline.gpus, key=lambda gpu: _natural(names.gpu(gpu)))
    row_by_gpu = {gpu: row for row, gpu in enumerate(gpus)}
    height = TOP + ROW * len(gpus) + 8
    label = "Timeline: a row for each GPU, a bar for each reservation"
    yield f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">'
    for tick in range(TICKS + 1):
        at = report.since + (report.until - report.since) * tick / TICKS
        x = _place(report, at)
        anchor = "end" if tick == TICKS else "middle"
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{height}"/>'
        yield f'<text x="{x:.1f}" y="14" text-anchor="{anchor}">{datetime.fromtimestamp(at):%d %b %H:%M}</text>'
    yield from (
        f'<text x="0" y="{TOP + ROW * row + 15}">{text(names.gpu(gpu))}</text>' for gpu, row in row_by_gpu.items()
    )
    for each, gpu in timeline.bars[:MOST_BARS]:
        yield _bar(report, each, row_by_gpu[gpu], names, colours)
    yield "</svg>"
    if timeline.count > MOST_BARS:
        yield f"<p>The first {MOST_BARS} of {timeline.count} bars are shown; choose a shorter time to see all.</p>"


def _bar(report: Report, used: Used, row: int, names: Names, colours: dict[str, str]) -> str:
    begin, end = _place(report, used.since), _place(report, used.since + used.seconds)
    person = names.holder(used)
    title = used.name or used.container_id[:12]
    tooltip = f"{person}: {title}, {moment(used.since)}, {used.seconds / 3600:.2f} h, at work {share(used.busy)}"
    return (
        f'<rect x="{begin:.1f}" y="{TOP + ROW * row + 2}" width="{max(1.0, end - begin):.1f}" height="{ROW - 4}" rx="2"'
        f' fill="{colours[person]}" fill-opacity="0.85"><title>{text(tooltip)}</title></rect>'
    )


def _table(report: Report) -> Iterator[str]:
    headers = (HEADERS[report.by], "GPU-hours", "Used", "Idle", "Starts")
    yield f"<table><tr>{''.join(f'<th>{header}</th>' for header in headers)}</tr>"
    for total in report.totals:
        shares = (share(total.share_used), share(total.share_idle))
        cells = (text(total.title), f"{total.gpu_seconds / 3600:.1f}", *shares, str(total.starts))
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</table>"


def _colours(timeline: Timeline, names: Names) -> dict[str, str]:
    seconds: defaultdict[str, float] = defaultdict(float)
    for (pod, uid), more in timeline.seconds.items():
        seconds[pod or names.person(uid)] += more
    order = sorted(seconds, key=lambda person: (-seconds[person], person))
    return {person: COLOURS[position % len(COLOURS)] for position, person in enumerate(order)}


def _place(report: Report, at: float) -> float:
    inside = min(max(at, report.since), report.until)
    return LEFT + (WIDTH - LEFT) * (inside - report.since) / max(1.0, report.until - report.since)


def _natural(title: str) -> tuple[bool, int, str]:
    last = title.rpartition(" ")[2]
    return not last.isdecimal(), int(last) if last.isdecimal() else 0, title
