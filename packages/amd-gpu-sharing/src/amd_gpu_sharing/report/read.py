"""Read the history for a report, and find the names of its persons and GPUs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache

from amd_device_spec.settings import read_settings
from amd_gpu_sharing.report.totals import BY, NOT_KNOWN, Names, Report, make_report
from amd_gpu_tracker import Tracker, Used
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host
from amdgpu_discovery.numbering import locate_gpus
from amdgpu_discovery.usage.people import title_of_person

History = Iterator[Used | None]

PERIOD_SECONDS_BY_UNIT = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
MOST_PERIOD_DIGITS = 5
NOT_RECORDED = "GPU Tracker is disabled, so reservations are not recorded: 'sudo amd-ctk gpu-tracker enable' starts it"
TURNED_OFF = "Reservations are not recorded: 'sudo amd-ctk report enable' starts it"
NOT_BEGUN = "Reservations are not recorded, because {problem}; fix this, then run 'sudo amd-ctk report enable'"
INCOMPLETE = "Some reservations are not recorded, because {problem}"


class ReportError(ToolkitError):
    """The options of a report are invalid."""

    exit_code = 2


def parse_since(text: str, now: float) -> float:
    """Parse the start of a report into seconds since 1970 (UTC): `7d`, `12h`, `2w`, or a day such as `2026-11-01`."""
    if (length := re.fullmatch(rf"(\d{{1,{MOST_PERIOD_DIGITS}}})([hdw])", text)) is not None:
        return now - int(length[1]) * PERIOD_SECONDS_BY_UNIT[length[2]]
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%d"))
    except (OverflowError, ValueError):
        hint = "write 12h, 7d, 2w or a day such as 2026-11-01"
        raise ReportError(f"--since {text} is neither a length of time nor a day", hint=hint) from None


def read_report(
    host: Host, *, since: str, by: str, now: float, watch: Callable[[History], History] = iter
) -> tuple[Report, Names]:
    """Return the report and the names in it. The history passes through `watch` once."""
    if by not in BY:
        raise ReportError(f"--by {by} is not known", hint=f"write one of {', '.join(BY)}")
    tracker = Tracker(host)
    begin = parse_since(since, now)
    # A user who may only read gets the records as they are, even if a power cut left some open.
    with suppress(ToolkitError):
        tracker.recording.settle()
    names = find_names(host, by_number=read_settings(host).history_names == "numbers")
    history = watch(tracker.history(since=begin, until=now))
    return make_report(history, names, by=by, since=begin, until=now), names


def find_recording_problem(host: Host) -> str:
    """Return why reservations, or some of them, are not recorded now; "" if they are.

    If the tracker's state cannot be read, only recorded failures count.
    """
    tracker = Tracker(host)
    is_enabled: bool | None = None
    # This also fails, once, if no history can be started on a host that comes from AMD's toolkit 1.x.
    with suppress(ToolkitError):
        is_enabled = tracker.is_enabled()
    if is_enabled is False:
        return NOT_RECORDED
    if problem := tracker.recording.failures().get("history"):
        return (INCOMPLETE if tracker.recording.is_on() else NOT_BEGUN).format(problem=problem)
    return TURNED_OFF if is_enabled and not tracker.recording.is_on() else ""


def find_names(host: Host, *, by_number: bool) -> Names:
    """Return the names of persons and GPUs; a GPU that is gone is named by its PCI address."""
    numbers = _find_numbers(host)

    @cache
    def person(uid: int | None) -> str:
        if uid is None:
            return NOT_KNOWN
        return str(uid) if by_number else title_of_person(uid)

    return Names(person, lambda key: numbers.get(key, key))


def _find_numbers(host: Host) -> dict[str, str]:
    try:
        return {gpu.key: f"GPU {gpu.number}" for gpu in locate_gpus(host)}
    except ToolkitError:
        return {}
