"""Parts of GPUs: leases with some of a GPU's memory, whose sum is at most what it has."""

from __future__ import annotations

from amd_gpu_tracker.errors import GpusRefused
from amd_gpu_tracker.leases.lease_scan import LeaseScan
from amdgpu_discovery.discover import find_gpus
from amdgpu_discovery.errors import RequestError
from amdgpu_discovery.gpu import MEBIBYTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from amd_gpu_tracker.book.lease import Lease
    from amd_gpu_tracker.book.policy import Policy
    from amd_gpu_tracker.claims.claim import Claim
    from amdgpu_discovery.gpu import Gpu, GpuLocation
    from amdgpu_discovery.host import Host


def totals_of(gpus: Iterable[Gpu]) -> dict[str, int]:
    """Return the memory of GPUs in MiB, by key; 0 if it is unknown."""
    return {gpu.key: (gpu.vram_bytes or 0) // MEBIBYTE for gpu in gpus}


def with_memory(host: Host, named: Sequence[GpuLocation], vram_mb: int, *, instead: str = "") -> list[Gpu]:
    """Return GPUs with what is known of their memory; RequestError, which advises `instead`, if one has less."""
    keys = {gpu.key for gpu in named}
    gpus = [gpu for gpu in find_gpus(host) if gpu.key in keys]
    hint = "ask for less" + (f", or for GPUs that have it, as in {instead}+vram:{vram_mb}MiB" if instead else "")
    for gpu in gpus:
        if gpu.vram_bytes and (total := gpu.vram_bytes // MEBIBYTE) < vram_mb:
            raise RequestError(f"{vram_mb} MiB is more than GPU {gpu.number} has, which is {total} MiB", hint=hint)
    return gpus


def require_known(gpus: Iterable[Gpu]) -> None:
    """Raise RequestError if the memory of one of these GPUs is unknown, so that no part of it can be promised."""
    for gpu in gpus:
        if not gpu.vram_bytes:
            raise RequestError(f"the memory of GPU {gpu.number} is not known", hint="leave the amount of memory out")


def find_room(
    totals: Mapping[str, int], scan: LeaseScan, policy: Policy, *, shares_exclusive: bool = False
) -> dict[str, int]:
    """Return by key how much memory of GPUs may still be promised, in MiB; `totals` is what they have.

    A GPU of which somebody has the whole has none left; so has an exclusive one that anybody has, unless only jobs have
    parts of it and it `shares_exclusive`.
    """
    room = {}
    for key, total in totals.items():
        leases = [lease for lease in scan.living if key in lease.gpus]
        is_shared = key not in policy.exclusive_keys or (shares_exclusive and all(each.is_part for each in leases))
        is_whole = scan.is_named(key) or any(not each.vram_mb for each in leases) or (leases and not is_shared)
        room[key] = 0 if is_whole else max(0, total - _sum_of(leases))
    return room


def has_room(host: Host, policy: Policy, lease: Lease, others: Sequence[Lease]) -> bool:
    """Return whether the GPUs of a lease that has ended still have room for it beside others."""
    if not lease.is_part:
        return not any(key in each.gpus for each in others for key in lease.gpus)
    totals = totals_of(gpu for gpu in find_gpus(host) if gpu.key in lease.gpus)
    room = find_room(totals, LeaseScan(living=tuple(others), unreadable=()), policy, shares_exclusive=True)
    return all(left >= lease.vram_mb for left in room.values())


def refuse_without_room(claim: Claim, scan: LeaseScan, policy: Policy) -> GpusRefused | None:
    """Return the refusal of a claim on parts of GPUs that it names if one of them has too little left."""
    room = find_room(claim.totals, scan, policy, shares_exclusive=claim.shares_by_vram)
    lacking = [gpu for gpu in claim.wanted if room[gpu.key] < claim.vram_mb]
    said = "; ".join(f"GPU {gpu.number} has {room[gpu.key]} MiB of memory left, not {claim.vram_mb}" for gpu in lacking)
    return GpusRefused(said, obstacle=said) if lacking else None


def _sum_of(leases: Iterable[Lease]) -> int:
    """Return the sum of some parts. A job and its containers, which carry its token, have one together."""
    parts = {each.reservation_digest or each.token_digest or each.key: each.vram_mb for each in leases}
    return sum(parts.values())
