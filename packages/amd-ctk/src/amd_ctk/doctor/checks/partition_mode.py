"""Can the partition mode of GPUs be changed?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "the driver refuses another partition mode while processes use the GPU, and a new mode makes other GPUs of it"
PLACE = "reference/gpu-tracker.md#partition-modes"


def check(facts: Facts) -> Finding | None:
    """Name who has GPUs that can be partitioned."""
    users = facts.toolkit.users_by_gpu
    can_change = [gpu.number for gpu in facts.gpus.gpus if gpu.compute_partition]
    names_by_gpu = {number: users[number] for number in can_change if number in users}
    if not names_by_gpu:
        return None
    numbers = " ".join(map(str, names_by_gpu))
    # A container may have several GPUs.
    names = ", ".join(dict.fromkeys(name for names in names_by_gpu.values() for name in names.split(", ")))
    return note(f"GPUs [{numbers}] are in use by {names}: their partition mode cannot be changed now")
