"""Is /dev/shm large enough for several GPUs to talk through?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note, ok
from amd_ctk.doctor.inside.image_files import SHARED_MEMORY
from amd_ctk.doctor.inside.tried import gpus_inside, name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "RCCL and data loaders share memory through /dev/shm; engines make it 64 MiB unless they are told otherwise"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"
MIB = 2**20
SMALL = 1024


def check(facts: Facts) -> Finding | None:
    """Judge the size where there are several GPUs."""
    size = facts.inside.image.shared_memory if facts.inside else None
    if size is None or len(gpus_inside(facts)) < 2:
        return None
    words = f"{SHARED_MEMORY} in {name_of(facts)} has {size // MIB} MiB"
    if size < SMALL * MIB:
        return note(f"{words}, for several GPUs", fix="add --shm-size=16g, or --ipc=host")
    return ok(words)
