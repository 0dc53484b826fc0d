"""Shows the usage once, or until the user ends it; on a terminal, fitted to its width."""

from __future__ import annotations

import time

from amd_gpu_tracker.errors import GpusChanged
from amd_gpu_tracker.watch.show.listing import DISABLED, Page, format_listing
from amd_gpu_tracker.watch.show.screen import print_list, watch_text
from amd_gpu_tracker.watch.usage.documents import format_prometheus, format_usage_json
from amd_gpu_tracker.watch.usage.reader import UsageReader
from amd_gpu_tracker.watch.usage.text import list_usage, usage_notes
from amd_gpu_tracker.watch.usage.users import Usage
from amdgpu_discovery.command_line.standard_output import is_terminal, print_notes, print_utf8

# Time between the two readings that show how busy GPUs are.
READING_SECONDS = 0.25
# A refresh reads the open files of every process, which takes a tenth of a second if there are thousands.
USAGE_SECONDS = 2.0


def print_usage(reader: UsageReader, *, as_json: bool, peaks: bool, no_trunc: bool) -> None:
    """Print the current usage, and on stderr what could not be read."""
    if peaks:
        reader.require_peaks()
    usage = reader.read_twice(READING_SECONDS)
    if as_json:
        print(format_usage_json(usage))
        return
    now = time.time()
    print_list(list_usage(usage, now=now, peaks=peaks), no_trunc=no_trunc)
    for sentence in usage_notes(usage, now=now, peaks=peaks):
        print(sentence)
    print_notes(_problems(usage))


def watch_usage(reader: UsageReader, *, as_json: bool, peaks: bool) -> None:
    """Show the usage every few seconds until Ctrl-C: on a terminal as a screen, elsewhere one below the other."""
    if peaks:
        reader.require_peaks()
    if is_terminal() and not as_json:
        from amd_gpu_tracker.watch.show.watch_screen import watch_screen

        watch_screen("GPU usage", lambda *_: _page(reader, peaks=peaks), seconds=USAGE_SECONDS)
        return
    watch_text(lambda: _format(reader.read(), as_json=as_json, peaks=peaks), seconds=USAGE_SECONDS, unchanged_too=True)


def print_metrics(reader: UsageReader) -> None:
    """Print the usage for Prometheus, and on stderr what could not be read."""
    usage = reader.read_twice(READING_SECONDS)
    print_utf8(format_prometheus(usage))
    print_notes(usage.problems)


def _format(usage: Usage, *, as_json: bool, peaks: bool) -> tuple[str, tuple[str, ...]]:
    if as_json:
        return format_usage_json(usage), ()
    now = time.time()
    listing = format_listing(list_usage(usage, now=now, peaks=peaks))
    return "\n".join([listing, *usage_notes(usage, now=now, peaks=peaks)]), _problems(usage)


def _page(reader: UsageReader, *, peaks: bool) -> Page:
    try:
        usage = reader.read()
    except GpusChanged as error:
        return Page(shown=str(error))
    now = time.time()
    notes = usage_notes(usage, now=now, peaks=peaks)
    return Page(shown=list_usage(usage, now=now, peaks=peaks), notes=(*notes, *_problems(usage)))


def _problems(usage: Usage) -> tuple[str, ...]:
    return usage.problems if usage.enabled else (*usage.problems, DISABLED)
