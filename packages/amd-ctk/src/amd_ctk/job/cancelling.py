"""Take a job out of the line: of those who wait through the service, or of those who wait by themselves."""

from __future__ import annotations

from amd_ctk.job.service import cancel
from amd_gpu_tracker import Tracker
from amd_gpu_tracker.broker.client import Refused
from amd_gpu_tracker.errors import NotDone
from amd_gpu_tracker.waiting.ticket import require_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amdgpu_discovery.host import Host


def cancel_job(host: Host, name: str, owner: int | None) -> None:
    """Take a job out of the line, that of `owner` where one is named; NotDone, NotPermitted."""
    require_name(name)
    try:
        if cancel(host, name, owner):
            return
    except Refused as error:
        # It may wait without the service.
        if error.exit_code != NotDone.exit_code or not Tracker(host).cancel(name):
            raise
        return
    if not Tracker(host).cancel(name):
        raise NotDone(f"no job {name} waits for GPUs", hint="see 'amd-ctk queue list'")
