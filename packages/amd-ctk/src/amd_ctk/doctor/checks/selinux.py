"""Does SELinux let containers use devices?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "SELinux refuses what the mode of a node allows, and a program sees 'Permission denied'"
PLACE = "explanation/access.md"


def check(facts: Facts) -> Finding | None:
    """Judge the booleans of container-selinux."""
    kernel = facts.kernel
    if kernel.selinux_enforcing is None:
        return None
    if not kernel.selinux_enforcing:
        return ok("SELinux does not enforce")
    if not (kernel.selinux_devices or kernel.selinux_dri_devices):
        return _judge(sets_labels=facts.docker.sets_labels or facts.podman.is_installed)
    return ok("SELinux lets containers use GPUs")


def _judge(*, sets_labels: bool) -> Finding:
    fix = "sudo setsebool -P container_use_devices on"
    if sets_labels:
        return bad("SELinux keeps containers from devices", fix=fix)
    # dockerd does so with --selinux-enabled, containerd with enable_selinux; both are off by default.
    return note("SELinux keeps containers with a label from devices, and no engine here is known to set one", fix=fix)
