"""Is /dev/shm large enough for several GPUs to talk through?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok
from amd_ctk.doctor.inside.image_files import SHARED_MEMORY
from amd_ctk.doctor.inside.tried import gpus_inside, name_of
from amdgpu_discovery.gpu import MEBIBYTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "RCCL and data loaders share memory through /dev/shm; engines make it 64 MiB unless they are told otherwise"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"
# What engines make it.
USUAL = 64
SMALL = 1024


def check(facts: Facts) -> Finding | None:
    """Judge the size where there are several GPUs."""
    size = facts.inside.image.shared_memory if facts.inside else None
    if size is None or len(gpus_inside(facts)) < 2:
        return None
    words, fix = f"{SHARED_MEMORY} in {name_of(facts)} has {size // MEBIBYTE} MiB", "add --shm-size=16g, or --ipc=host"
    if size <= USUAL * MEBIBYTE and facts.inside and facts.inside.image.has_rccl:
        return bad(f"{words}, too little for RCCL and several GPUs", fix=fix)
    if size < SMALL * MEBIBYTE:
        return note(f"{words}, for several GPUs", fix=fix)
    return ok(words)
