"""Print status once, or again whenever it changes."""

from __future__ import annotations

import sys
import time

from amd_gpu_tracker.errors import GpusChanged
from amd_gpu_tracker.life.container_names import find_container_names
from amd_gpu_tracker.records.plain_text import printable
from amd_gpu_tracker.show.table import format_json, format_refusals, format_status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.show.status import Status
    from amd_gpu_tracker.tracker import Tracker

WATCH_SECONDS = 0.5
# Terminals go to the top left and forget what was there (ECMA-48: CUP, ED).
CLEAR_SCREEN = "\x1b[H\x1b[2J"


def print_status(tracker: Tracker, *, as_json: bool, wide: bool) -> None:
    """Print status as it is now, and on stderr what could not be read of it, and who can reach all GPUs."""
    status = tracker.status()
    print(_format(status, as_json=as_json, wide=wide))
    if as_json:
        return
    privileged = (
        f"container {use.container_id} is privileged: it can reach all GPUs, exclusive ones too"
        for use in status.privileged
    )
    for sentence in (*status.problems, *privileged):
        print(printable(sentence), file=sys.stderr)


def watch_status(tracker: Tracker, *, as_json: bool, wide: bool) -> None:
    """Print status now and whenever it has changed, until the user has seen enough."""
    shown = ""
    try:
        while True:
            text = _format_now(tracker, as_json=as_json, wide=wide)
            if text != shown:
                print(f"{CLEAR_SCREEN if sys.stdout.isatty() else ''}{text}", flush=True)
                shown = text
            time.sleep(WATCH_SECONDS)
    except KeyboardInterrupt:
        return


def print_refusals(tracker: Tracker, *, as_json: bool) -> None:
    """Print the latest refusals."""
    import json

    refusals = tracker.refusals()
    print(json.dumps([refusal.as_dict() for refusal in refusals], indent=2) if as_json else format_refusals(refusals))


def _format_now(tracker: Tracker, *, as_json: bool, wide: bool) -> str:
    try:
        return _format(tracker.status(), as_json=as_json, wide=wide)
    except GpusChanged as error:
        return str(error)


def _format(status: Status, *, as_json: bool, wide: bool) -> str:
    uses = (*(use for gpu in status.gpus for use in gpu.containers), *status.privileged)
    names = find_container_names(uses) if wide or as_json else {}
    if as_json:
        return format_json(status, names)
    if not status.enabled:
        return "GPU Tracker is disabled"
    return format_status(status, names=names if wide else None)
