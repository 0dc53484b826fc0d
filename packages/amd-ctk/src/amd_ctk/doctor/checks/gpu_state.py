"""Do the GPUs answer?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a GPU that was lost or hangs in a reset answers with errors, and every program that opens it fails"
PLACE = "how-to/troubleshoot.md#the-driver-and-its-nodes"


def check(facts: Facts) -> Finding | None:
    """Judge whether attributes of the driver can be read."""
    if not facts.kernel.is_driver_loaded or not facts.gpus.pci_functions:
        return None
    broken = facts.gpus.broken_attributes
    if broken:
        return bad(f"a GPU does not answer: {broken[0]}", fix="sudo dmesg | grep amdgpu, then reset it or reboot")
    return ok("the driver answers for every GPU")
