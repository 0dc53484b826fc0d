"""Is the image's ROCm tested with this kernel driver?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note, ok
from amdgpu_discovery.driver_versions import is_tested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "ROCm in the image speaks to the kernel's driver, and AMD tests neighbouring releases only"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge the two versions, where both say one."""
    rocm = facts.inside.image.rocm_version if facts.inside else ""
    driver = facts.kernel.driver_version
    tested = is_tested(driver, rocm) if rocm and driver else None
    if tested is None:
        return None
    if not tested:
        words = f"the image has ROCm {rocm}, which AMD does not test with the driver amdgpu {driver}"
        return note(words, fix="use an image whose ROCm is within two releases of the driver's")
    return ok(f"the image has ROCm {rocm}, and the driver is amdgpu {driver}")
