"""amd-ctk gpu-tracker: the commands of amd-gpu-tracker, which keep the CDI spec in step here."""

from __future__ import annotations

from amd_gpu_tracker.cli import offer_help, say_refresh, tracker_app

app = tracker_app("amd-ctk gpu-tracker", say_refresh)
app.callback()(offer_help)
