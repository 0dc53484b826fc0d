"""Switch the timer that samples the GPUs, and take one sample."""

from __future__ import annotations

import os
from contextlib import suppress

from amd_device_spec.settings import read_settings
from amd_gpu_tracker import Tracker
from amdgpu_discovery.command_line.programs import ask_systemctl, would_change
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host

TIMER = "amd-gpu-usage.timer"
# Debian's node exporter reads metrics of other programs from this directory.
TEXTFILES = "/var/lib/prometheus/node-exporter"
METRICS = f"{TEXTFILES}/amd-gpu.prom"


class TimerError(ToolkitError):
    """The timer cannot be enabled or disabled."""


def enable_timer(host: Host, *, readers: str) -> None:
    """Start to record reservations and how busy GPUs are. A simulated host has no timer, so nothing samples it."""
    Tracker(host).recording.begin(readers=readers)
    if host.is_this_machine:
        _switch("enable")


def would_enable(host: Host, *, readers: str) -> bool:
    """Return whether `enable_timer` would change anything; raises the same errors."""
    return not Tracker(host).recording.is_for(readers) or would_change(host, TIMER, enabled=True)


def would_disable(host: Host, *, history: bool) -> bool:
    """Return whether `disable_timer` would change anything."""
    records = history and Tracker(host).recording.is_on()
    return records or host.stat(METRICS) is not None or would_change(host, TIMER, enabled=False)


def disable_timer(host: Host, *, history: bool) -> None:
    """Stop sampling; with `history`, also stop recording reservations."""
    if host.is_this_machine:
        _switch("disable")
    # The exporter would serve old metrics forever.
    with suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(host.path(METRICS))
    if history:
        Tracker(host).recording.stop()


def take_sample(host: Host) -> dict[str, str]:
    """Check the health of the GPUs, add a sample to every running reservation, and write metrics.

    Metrics are written if Prometheus' node exporter is installed. Return what could not be recorded.
    """
    tracker = Tracker(host, rules=read_settings(host).choice_rules())
    recording = tracker.recording
    usage = recording.take_sample(tracker.usage_looks(), keep_days=read_settings(host).history_days)
    has_exporter = host.stat(TEXTFILES) is not None
    # If no program reads the counters, the driver is only asked for them to find out whether a sick GPU has recovered.
    states = tracker.states(with_errors=has_exporter or any(gpu.sick for gpu in tracker.status().gpus))
    if has_exporter:
        since = [ticket.since for ticket in tracker.waiting()]
        has_failed = bool(tracker.service_problem())
        recording.write_metrics(host.path(METRICS), usage, states, since, has_failed=has_failed)
    return recording.failures()


def _switch(verb: str) -> None:
    answer = ask_systemctl(verb, "--now", TIMER)
    if not answer.succeeded:
        hint = "without systemd, call 'sudo amd-ctk usage sample' every 30 seconds yourself"
        raise TimerError(f"{TIMER} cannot be {verb}d: {answer.problem or answer.errors.strip()}", hint=hint)
