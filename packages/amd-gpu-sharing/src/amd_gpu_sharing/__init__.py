"""People without root reserve GPUs of a host, or wait in line for them.

    from amd_gpu_sharing import Service
    from amdgpu_discovery import Host

    Service(Host()).is_served()

The names on this page stay the same from one version to the next. The modules behind them may change.
"""

from __future__ import annotations

from amdgpu_discovery import lazy_exports

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_gpu_sharing.failure import RESTART as RESTART
    from amd_gpu_sharing.failure import SOCKET_UNIT as SOCKET_UNIT
    from amd_gpu_sharing.listing import print_queue as print_queue
    from amd_gpu_sharing.listing import waiting_rows as waiting_rows
    from amd_gpu_sharing.node_access.users import ReservedNodes as ReservedNodes
    from amd_gpu_sharing.requests import numbers_of_job as numbers_of_job
    from amd_gpu_sharing.rules.access import apply_access as apply_access
    from amd_gpu_sharing.rules.access import find_access_problem as find_access_problem
    from amd_gpu_sharing.rules.access import find_obstacles as find_obstacles
    from amd_gpu_sharing.rules.access import preview_access as preview_access
    from amd_gpu_sharing.rules.access import require_open_containers as require_open_containers
    from amd_gpu_sharing.rules.access import set_access as set_access
    from amd_gpu_sharing.rules.departed import find_departed as find_departed
    from amd_gpu_sharing.rules.permissions import parse_users as parse_users
    from amd_gpu_sharing.rules.permissions import read_permissions as read_permissions
    from amd_gpu_sharing.rules.units import SERVE_HINT as SERVE_HINT
    from amd_gpu_sharing.rules.units import serve as serve
    from amd_gpu_sharing.service import GivenGpus as GivenGpus
    from amd_gpu_sharing.service import JobRequest as JobRequest
    from amd_gpu_sharing.service import Service as Service
    from amd_gpu_sharing.shared_jobs import SharedJobs as SharedJobs
    from amd_gpu_sharing.tickets import Ticket as Ticket

_MODULE_BY_NAME = {
    "Service": "service",
    "JobRequest": "service",
    "GivenGpus": "service",
    "Ticket": "tickets",
    "SharedJobs": "shared_jobs",
    "ReservedNodes": "node_access.users",
    "numbers_of_job": "requests",
    "print_queue": "listing",
    "waiting_rows": "listing",
    "apply_access": "rules.access",
    "find_access_problem": "rules.access",
    "find_obstacles": "rules.access",
    "preview_access": "rules.access",
    "require_open_containers": "rules.access",
    "set_access": "rules.access",
    "find_departed": "rules.departed",
    "parse_users": "rules.permissions",
    "read_permissions": "rules.permissions",
    "SERVE_HINT": "rules.units",
    "RESTART": "failure",
    "SOCKET_UNIT": "failure",
    "serve": "rules.units",
}
__all__ = list(_MODULE_BY_NAME)

__getattr__ = lazy_exports(__name__, _MODULE_BY_NAME)
