"""Does SELinux let containers use devices?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

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
        return bad("SELinux keeps containers from devices", fix="sudo setsebool -P container_use_devices on")
    return ok("SELinux lets containers use GPUs")
