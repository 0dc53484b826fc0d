"""May the container lock enough memory for RDMA?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok
from amd_ctk.doctor.inside.tried import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "RDMA registers memory, which the kernel counts as locked; past the limit RCCL and UCX fail"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"
# linux/capability.h
CAP_IPC_LOCK = 14
GIB = 2**30


def check(facts: Facts) -> Finding | None:
    """Judge the limit where there are InfiniBand devices."""
    inside = facts.inside
    if inside is None or not inside.image.has_infiniband:
        return None
    limit = inside.process.locked_memory
    if limit is None or limit >= GIB or inside.process.has_capability(CAP_IPC_LOCK):
        return ok(f"{name_of(facts)} has InfiniBand devices, and may lock memory")
    words = f"{name_of(facts)} has InfiniBand devices, and may lock {limit // 1024} KiB of memory"
    return bad(words, fix="add --ulimit memlock=-1")
