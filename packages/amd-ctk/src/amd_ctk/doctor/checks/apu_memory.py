"""How much memory may an integrated GPU use?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok
from amdgpu_discovery.gpu import MEBIBYTE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "programs that count only what the firmware has set aside see a small GPU, or none that is large enough"
PLACE = "explanation/numbering.md"
SMALL = 4096


def check(facts: Facts) -> Finding | None:
    """Compare the memory that the firmware has set aside with what KFD offers."""
    has_cards = any(not gpu.is_apu for gpu in facts.gpus.gpus)
    for gpu in facts.gpus.gpus:
        carve_out = facts.gpus.carve_outs.get(gpu.number)
        if not gpu.is_apu or carve_out is None or not gpu.vram_bytes:
            continue
        if carve_out // MEBIBYTE < SMALL and has_cards:
            # Programs use the cards.
            continue
        if gpu.vram_bytes > carve_out:
            return _judge(gpu.number, carve_out // MEBIBYTE, gpu.vram_bytes // MEBIBYTE)
        if carve_out // MEBIBYTE < SMALL:
            # Since Linux 6.10 KFD counts system memory too.
            words = (
                f"GPU {gpu.number} may use {carve_out // MEBIBYTE} MiB: what is set aside for it, and no other memory"
            )
            return bad(words, fix="set aside more in the firmware, or run Linux 6.10 or later")
    return None


def _judge(number: int, carve_out: int, total: int) -> Finding:
    words = f"GPU {number} has {carve_out} MiB set aside, and may use {total} MiB"
    if carve_out < SMALL:
        return note(words, fix="set aside more in the firmware if a program asks for VRAM")
    return ok(words)
