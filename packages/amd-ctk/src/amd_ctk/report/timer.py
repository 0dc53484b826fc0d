"""The timer that looks at the GPUs, and one look of it."""

from __future__ import annotations

import os
from contextlib import suppress

from amd_ctk.listing import looking_tracker
from amd_ctk.programs import ask_systemctl, would_switch
from amd_device_spec.settings import read_settings
from amd_gpu_tracker import Tracker
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

TIMER = "amd-gpu-usage.timer"
# Where Debian's node exporter looks for metrics of other programs.
TEXTFILES = "/var/lib/prometheus/node-exporter"
METRICS = f"{TEXTFILES}/amd-gpu.prom"


class TimerError(ToolkitError):
    """The timer cannot be switched."""


def enable_timer(host: Host, *, readers: str) -> None:
    """Record reservations and how busy GPUs are from now on; on a simulated host nothing looks by itself."""
    Tracker(host).recording.begin(readers=readers)
    if host.is_this_machine:
        _switch("enable")


def would_enable(host: Host, *, readers: str) -> bool:
    """Return whether `enable_timer` would change anything; errors as that has."""
    return not Tracker(host).recording.is_for(readers) or would_switch(host, TIMER, enabled=True)


def would_disable(host: Host, *, history: bool) -> bool:
    """Return whether `disable_timer` would change anything."""
    records = history and Tracker(host).recording.is_on()
    return records or host.stat(METRICS) is not None or would_switch(host, TIMER, enabled=False)


def disable_timer(host: Host, *, history: bool) -> None:
    """Look no more; with `history` record no reservations either."""
    if host.is_this_machine:
        _switch("disable")
    # Metrics that stay as they are would be served for ever.
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(host.path(METRICS))
    if history:
        Tracker(host).recording.stop()


def take_look(host: Host) -> dict[str, str]:
    """Look at the health of the GPUs, add a look to every running reservation, and write metrics for the node exporter.

    The metrics are written where the exporter is installed. Return what could not be recorded.
    """
    tracker = looking_tracker(host)
    recording = tracker.recording
    usage = recording.take_look(tracker.usage_looks(), keep_days=read_settings(host).history_days)
    has_exporter = host.stat(TEXTFILES) is not None
    # If no program reads the counters, the driver is asked for them only to see whether a sick GPU is well again.
    states = tracker.states(with_errors=has_exporter or any(gpu.sick for gpu in tracker.status().gpus))
    if has_exporter:
        recording.write_metrics(host.path(METRICS), usage, states, tracker.waiting())
    return recording.failures()


def _switch(verb: str) -> None:
    answer = ask_systemctl(verb, "--now", TIMER)
    if not answer.succeeded:
        hint = "without systemd, call 'sudo amd-ctk usage sample' every 30 seconds yourself"
        raise TimerError(f"{TIMER} cannot be {verb}d: {answer.problem or answer.errors.strip()}", hint=hint)
