"""What the settings say to the service that gives out GPUs."""

from __future__ import annotations

from amd_ctk.sharing.permissions import parse_users
from amd_device_spec.settings import PRIVATE, RESERVED, parse_time, read_settings
from amd_gpu_tracker.broker.terms import Terms
from amdgpu_discovery.host import Host


def find_terms(host: Host) -> Terms:
    """Return who may reserve GPUs on a host, and in which order; SettingsError."""
    settings = read_settings(host)
    return Terms(
        rules=settings.choice_rules(),
        permissions=tuple(parse_users(settings.users, host)),
        order=settings.queue_order,
        is_reserved=settings.gpu_access == RESERVED,
        idle=parse_time(settings.idle),
        has_private_names=settings.job_names == PRIVATE,
    )
