"""Does Secure Boot keep the driver out?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "with Secure Boot the kernel refuses a module whose signature it does not know"
PLACE = "how-to/troubleshoot.md#the-driver-and-its-nodes"


def check(facts: Facts) -> Finding | None:
    """Judge whether a module that was built for this kernel is not loaded, and Secure Boot is on."""
    kernel = facts.kernel
    if kernel.secure_boot is None:
        return None
    if not kernel.secure_boot:
        return ok("Secure Boot is off")
    is_built = kernel.has_dkms and kernel.release in kernel.dkms_kernels
    if kernel.is_driver_loaded or not is_built:
        return ok("Secure Boot is on, and does not concern the driver")
    return bad(
        "Secure Boot is on, and the amdgpu module of DKMS is not loaded",
        fix="sudo mokutil --import /var/lib/shim-signed/mok/MOK.der, reboot, and enroll the key",
    )
