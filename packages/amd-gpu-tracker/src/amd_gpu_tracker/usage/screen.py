"""Show the usage once, or as long as the user looks: on a terminal drawn to its width."""

from __future__ import annotations

import sys
import time

from amd_gpu_tracker.errors import GpusChanged
from amd_gpu_tracker.records.plain_text import printable
from amd_gpu_tracker.usage.documents import format_prometheus, format_usage_json
from amd_gpu_tracker.usage.text import format_usage, list_usage, usage_notes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.show.listing import Listing
    from amd_gpu_tracker.usage.looks import UsageLooks
    from amd_gpu_tracker.usage.users import Usage

# Between the two readings that tell how busy GPUs are.
READING_SECONDS = 0.25
# A look goes through the open files of every process, which takes a tenth of a second where there are thousands.
WATCH_SECONDS = 2.0
DISABLED = "GPU Tracker is disabled, so reservations are not known"


def print_usage(looks: UsageLooks, *, as_json: bool, peaks: bool, no_trunc: bool) -> None:
    """Print the usage of this moment, and on stderr what could not be read of it."""
    if peaks:
        looks.require_peaks()
    usage = _look_twice(looks)
    if sys.stdout.isatty() and not as_json:
        _print_on_terminal(usage, peaks=peaks, no_trunc=no_trunc)
    else:
        print(_format(usage, as_json=as_json, peaks=peaks))
    if as_json:
        return
    for sentence in (*usage.problems, *(() if usage.enabled else (DISABLED,))):
        print(printable(sentence), file=sys.stderr)


def watch_usage(looks: UsageLooks, *, as_json: bool, peaks: bool) -> None:
    """Show the usage every few seconds until Ctrl-C: on a terminal as a screen, elsewhere one below the other."""
    if peaks:
        looks.require_peaks()
    if sys.stdout.isatty() and not as_json:
        from amd_gpu_tracker.show.watch_screen import watch_screen

        watch_screen("GPU usage", lambda _: _list_now(looks, peaks=peaks), seconds=WATCH_SECONDS)
        return
    try:
        while True:
            usage = looks.look()
            print(
                format_usage_json(usage) if as_json else format_usage(usage, now=time.time(), peaks=peaks), flush=True
            )
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def print_metrics(looks: UsageLooks) -> None:
    """Print the usage for Prometheus."""
    print(format_prometheus(_look_twice(looks)))


def _look_twice(looks: UsageLooks) -> Usage:
    looks.look()
    time.sleep(READING_SECONDS)
    return looks.look()


def _format(usage: Usage, *, as_json: bool, peaks: bool) -> str:
    return format_usage_json(usage) if as_json else format_usage(usage, now=time.time(), peaks=peaks)


def _list_now(looks: UsageLooks, *, peaks: bool) -> Listing | str:
    try:
        return list_usage(looks.look(), now=time.time(), peaks=peaks)
    except GpusChanged as error:
        return str(error)


def _print_on_terminal(usage: Usage, *, peaks: bool, no_trunc: bool) -> None:
    from amd_gpu_tracker.show.terminal import make_console, print_listing

    now = time.time()
    print_listing(list_usage(usage, now=now, peaks=peaks), make_console(), no_trunc=no_trunc)
    for sentence in usage_notes(usage, now=now, peaks=peaks):
        print(sentence)
