"""amd-ctk gpu-tracker: the commands of amd-gpu-tracker, which keep the CDI specs in step here."""

from __future__ import annotations

import sys

from amd_ctk.cdi.refresh import refresh_specs
from amd_gpu_tracker.cli import offer_help, tracker_app
from amdgpu_discovery.errors import ToolkitError
from amdgpu_discovery.host import Host


def keep_specs_in_step(host: Host) -> None:
    """Give the CDI specs the tracker's hooks or take them out; what fails is said, and leaves the switch as it is."""
    try:
        errors = [spec.error for spec in refresh_specs(host) if spec.error]
    except ToolkitError as unreadable:
        errors = [unreadable]
    for error in errors:
        print(error, file=sys.stderr)


app = tracker_app("amd-ctk gpu-tracker", keep_specs_in_step)
app.callback()(offer_help)
