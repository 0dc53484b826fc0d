"""The GPUs and jobs of a host as one HTML page, for a wall or a phone; browsers reload it each minute."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence

from amd_ctk.companions import SHARING, is_installed
from amd_ctk.gpus.listing import tracker_with_rules
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.face.state_table import find_page
from amd_gpu_tracker.watch.show.jobs import EMPTY_QUEUE, running_rows
from amd_gpu_tracker.watch.show.listing import Listing, Page
from amdgpu_discovery.command_line.web_page import format_web_page, text
from amdgpu_discovery.files import replace_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from amdgpu_discovery.host import Host

PAGE_RELOAD_SECONDS = 60
# The first columns on a phone; the others follow.
FIRST = ("GPU", "State", "Who", "What", "Since", "Ends in", "Busy", "VRAM")
STYLE = """
:root { --card: #f6f8fa; --free: #1a7f37; --reserved: #0969da; --in-use: #9a6700; --away: #8250df; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --card: #22262b; --free: #4ac26b; --reserved: #6cb6ff;
  --in-use: #e3b341; --away: #c297ff; --bad: #ff7b72; } }
h2 { font-size: 1.1rem; margin: 1.5rem 0 .3rem; } .scroll { margin-top: .6rem; } p { margin: .3rem 0; }
.note { background: var(--card); border-left: 4px solid var(--in-use); padding: .3rem .6rem; overflow-wrap: anywhere; }
th, td { text-align: left; white-space: nowrap; } th { font-weight: 600; opacity: .75; }
th:first-child, td:first-child { position: sticky; left: 0; background: var(--paper); }
td { max-width: 24rem; overflow: hidden; text-overflow: ellipsis; }
.free { color: var(--free); } .reserved { color: var(--reserved); } .in-use, .suspect { color: var(--in-use); }
.draining, .drained { color: var(--away); } .sick, .lost { color: var(--bad); } td[class] { font-weight: 600; }
footer { margin-top: 1.5rem; font-size: .85rem; opacity: .75; }
"""


def find_status_page(tracker: Tracker) -> str:
    """Return the page for the current state of a host."""
    waiting, running = tracker.waiting(), tracker.jobs()
    now = time.time()
    page = find_page(tracker, now=now)
    jobs = [running_rows(running, now), _waiting_rows(waiting, now)]
    return format_status_page(page, jobs, host=platform.node(), now=now)


def print_page(host: Host, path: str) -> None:
    """Print the page, or write it to a file."""
    page = find_status_page(tracker_with_rules(host))
    if path:
        replace_file(path, page.encode())
    else:
        print(page, end="")


def _waiting_rows(waiting: Sequence[Any], now: float) -> list[tuple[str, ...]]:
    if not is_installed(SHARING):
        return [()]
    from amd_gpu_sharing import waiting_rows

    return waiting_rows(waiting, now)


def format_status_page(page: Page, jobs: Sequence[Sequence[Sequence[str]]], *, host: str, now: float) -> str:
    """Format the page of `host`. `jobs` are two tables with headers: jobs that have GPUs, and jobs that wait."""
    running, waiting = jobs
    at = time.strftime("%Y-%m-%d %H:%M %Z", time.localtime(now))
    parts = [f"<p>{text(page.title)}</p>"]
    parts += [f'<p class="note">{text(note)}</p>' for note in page.notes]
    if isinstance(page.shown, Listing):
        parts += _table(_gpu_rows(page.shown))
    if running[1:]:
        parts += ["<h2>Jobs with GPUs</h2>", *_table(running)]
    parts += ["<h2>Waiting jobs</h2>"]
    parts += _table(waiting) if waiting[1:] else [f"<p>{EMPTY_QUEUE}</p>"]
    parts += [f"<footer>{text(at)}</footer>"]
    return format_web_page(f"GPUs of {host}", parts, style=STYLE, reload_seconds=PAGE_RELOAD_SECONDS)


def _gpu_rows(listing: Listing) -> list[Sequence[str]]:
    headers = [column.header for column in listing.columns]
    ranks = [FIRST.index(header) if header in FIRST else len(FIRST) for header in headers]
    order = sorted(range(len(headers)), key=ranks.__getitem__)
    return [[row[place] for place in order] for row in (headers, *listing.rows)]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a table that scrolls if it is wider than the screen, with a colour for the state of a GPU."""
    headers, *body = rows
    yield '<div class="scroll" tabindex="0"><table>'
    yield f"<tr>{''.join(f'<th>{text(header)}</th>' for header in headers)}</tr>"
    for row in body:
        cells = (_cell(header, cell) for header, cell in zip(headers, row, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</table></div>"


def _cell(header: str, cell: str) -> str:
    kind = f' class="{text(cell).replace(" ", "-")}"' if header == "State" else ""
    return f'<td{kind} title="{text(cell)}">{text(cell)}</td>'
