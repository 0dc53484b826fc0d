"""Has DKMS built the driver for the running kernel?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "after an update of the kernel the module of the old one cannot be loaded"
PLACE = "how-to/troubleshoot.md#the-driver-and-its-nodes"


def check(facts: Facts) -> Finding | None:
    """Judge whether the kernel that runs is one of those that DKMS built for."""
    kernel = facts.kernel
    if not kernel.has_dkms or not kernel.release:
        return None
    if kernel.release in kernel.dkms_kernels or kernel.is_driver_loaded:
        return ok(f"DKMS has amdgpu for {', '.join(kernel.dkms_kernels) or 'no kernel'}")
    return bad(
        f"DKMS has no amdgpu for the running kernel {kernel.release}",
        fix=f"sudo dkms autoinstall -k {kernel.release} && sudo modprobe amdgpu",
    )
