"""How much memory may an integrated GPU use?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "programs that count only what the firmware has set aside see a small GPU, or none that is large enough"
PLACE = "explanation/numbering.md"
MIB = 2**20
SMALL = 4096


def check(facts: Facts) -> Finding | None:
    """Name the memory that the firmware has set aside, beside what KFD offers."""
    for gpu in facts.gpus.gpus:
        carve_out = facts.gpus.carve_outs.get(gpu.number)
        if gpu.is_apu and carve_out is not None and gpu.vram_bytes and gpu.vram_bytes > carve_out:
            words = f"GPU {gpu.number} has {carve_out // MIB} MiB set aside, and may use {gpu.vram_bytes // MIB} MiB"
            if carve_out // MIB < SMALL:
                return note(words, fix="set aside more in the firmware if a program asks for VRAM")
            return ok(words)
    return None
