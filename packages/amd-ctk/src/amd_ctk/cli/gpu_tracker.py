"""amd-ctk gpu-tracker: the commands of amd-gpu-tracker, which keep the CDI specs in step here."""

from __future__ import annotations

import sys

from amd_gpu_tracker.cli import begin, tracker_app
from amdgpu_discovery.host import Host


def refresh_cdi_specs(host: Host) -> None:
    """Give the generated CDI specs the tracker's hooks, or take them out; say which could not be changed."""
    from amd_ctk.cdi.refresh import refresh_specs

    for refreshed in refresh_specs(host):
        if refreshed.error is not None:
            print(f"the CDI spec {refreshed.output} was not brought in step: {refreshed.error}", file=sys.stderr)


app = tracker_app("amd-ctk gpu-tracker", refresh_cdi_specs)

app.callback()(begin)
