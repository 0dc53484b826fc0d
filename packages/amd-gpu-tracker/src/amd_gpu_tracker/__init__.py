"""Tracks who uses which AMD GPU, by shared and exclusive reservations.

    from amd_gpu_tracker import Tracker
    from amdgpu_discovery import Host

    tracker = Tracker(Host())
    with tracker.reserve("auto:1") as reservation:
        subprocess.run(["python3", "train.py"], env={**os.environ, **reservation.environment})

A reservation ends with its process at the latest. The names on this page stay the same from one version to the next.
The modules behind them may change.
"""

from __future__ import annotations

from amd_gpu_tracker.enabled import may_be_draining, may_be_tracking
from amdgpu_discovery import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_tracker.book.lease import ProcessId as ProcessId
    from amd_gpu_tracker.book.lock import CommandLock as CommandLock
    from amd_gpu_tracker.book.numbers import refuse_old_numbers as refuse_old_numbers
    from amd_gpu_tracker.book.refusal_log import Refusal as Refusal
    from amd_gpu_tracker.claims.accessibility import AccessibilityChange as AccessibilityChange
    from amd_gpu_tracker.claims.container import ContainerClaim as ContainerClaim
    from amd_gpu_tracker.claims.container import StartingContainer as StartingContainer
    from amd_gpu_tracker.claims.container import claim_grant as claim_grant
    from amd_gpu_tracker.claims.container import claim_nodes as claim_nodes
    from amd_gpu_tracker.claims.draining import skip_drained as skip_drained
    from amd_gpu_tracker.claims.handover import Reservation as Reservation
    from amd_gpu_tracker.errors import ContainerRunning as ContainerRunning
    from amd_gpu_tracker.errors import GpusChanged as GpusChanged
    from amd_gpu_tracker.errors import GpusRefused as GpusRefused
    from amd_gpu_tracker.errors import LockTimeout as LockTimeout
    from amd_gpu_tracker.errors import NotPermitted as NotPermitted
    from amd_gpu_tracker.errors import SharingMissing as SharingMissing
    from amd_gpu_tracker.errors import StateError as StateError
    from amd_gpu_tracker.errors import TrackerDisabled as TrackerDisabled
    from amd_gpu_tracker.errors import TrackerNeeded as TrackerNeeded
    from amd_gpu_tracker.errors import WaitOver as WaitOver
    from amd_gpu_tracker.errors import WaitRefused as WaitRefused
    from amd_gpu_tracker.face.tracker import Tracker as Tracker
    from amd_gpu_tracker.leases.jobs import RunningJob as RunningJob
    from amd_gpu_tracker.leases.processes import Processes as Processes
    from amd_gpu_tracker.leases.running import RunningContainer as RunningContainer
    from amd_gpu_tracker.leases.running import find_running_containers as find_running_containers
    from amd_gpu_tracker.leases.status import ContainerUse as ContainerUse
    from amd_gpu_tracker.leases.status import GpuUse as GpuUse
    from amd_gpu_tracker.leases.status import Status as Status
    from amd_gpu_tracker.leases.use import GpuProcess as GpuProcess
    from amd_gpu_tracker.watch.history.used import Used as Used
    from amd_gpu_tracker.watch.states.find import find_states as find_states
    from amd_gpu_tracker.watch.states.state import GpuState as GpuState
    from amdgpu_discovery.choices.oci_spec import gpus_in_spec as gpus_in_spec

_MODULE_BY_NAME = {
    "Tracker": "face.tracker",
    "claim_nodes": "claims.container",
    "claim_grant": "claims.container",
    "skip_drained": "claims.draining",
    "refuse_old_numbers": "book.numbers",
    "ContainerClaim": "claims.container",
    "StartingContainer": "claims.container",
    "gpus_in_spec": "claims.container",
    "Reservation": "claims.handover",
    "AccessibilityChange": "claims.accessibility",
    "RunningJob": "leases.jobs",
    "Status": "leases.status",
    "GpuUse": "leases.status",
    "ContainerUse": "leases.status",
    "Refusal": "book.refusal_log",
    "find_running_containers": "leases.running",
    "RunningContainer": "leases.running",
    "Processes": "leases.processes",
    "ProcessId": "book.lease",
    "CommandLock": "book.lock",
    "Used": "watch.history.used",
    "find_states": "watch.states.find",
    "GpuState": "watch.states.state",
    "GpuProcess": "leases.use",
    "GpusRefused": "errors",
    "GpusChanged": "errors",
    "StateError": "errors",
    "SharingMissing": "errors",
    "NotPermitted": "errors",
    "LockTimeout": "errors",
    "ContainerRunning": "errors",
    "TrackerDisabled": "errors",
    "TrackerNeeded": "errors",
    "WaitOver": "errors",
    "WaitRefused": "errors",
}
__all__ = list(_MODULE_BY_NAME)
__all__ += ["may_be_draining", "may_be_tracking"]


__getattr__ = lazy_exports(__name__, _MODULE_BY_NAME, {"Ticket": "amd_gpu_sharing"})
