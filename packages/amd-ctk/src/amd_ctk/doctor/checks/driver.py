"""Is the amdgpu driver loaded?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "without the driver there is no /dev/kfd, and no container has a GPU"
PLACE = "how-to/troubleshoot.md#the-driver-and-its-nodes"


def check(facts: Facts) -> Finding | None:
    """Judge whether the driver is there, where nothing else explains that it is not."""
    kernel = facts.kernel
    if kernel.is_driver_loaded:
        version = f" {kernel.driver_version}" if kernel.driver_version else " of the kernel"
        return ok(f"amdgpu{version} is loaded")
    if kernel.is_windows or (kernel.secure_boot and kernel.has_dkms):
        return None
    if kernel.has_dkms and kernel.release and kernel.release not in kernel.dkms_kernels:
        return None
    if not facts.gpus.pci_functions:
        return note("amdgpu is not loaded, and this host has no GPU of AMD")
    return bad("amdgpu is not loaded", fix="sudo modprobe amdgpu")
