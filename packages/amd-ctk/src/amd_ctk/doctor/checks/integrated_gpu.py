"""Is there an integrated GPU beside a card?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "`all` has the integrated GPU too, and a program that uses the first one it sees may use that"
PLACE = "explanation/numbering.md#inside-a-container"


def check(facts: Facts) -> Finding | None:
    """Name the numbers of the cards where `all` is more than these."""
    cards = [gpu.number for gpu in facts.gpus.gpus if not gpu.is_apu]
    integrated = [gpu.number for gpu in facts.gpus.gpus if gpu.is_apu]
    if not cards or not integrated:
        return None
    chosen = ",".join(map(str, cards))
    return note(
        f"GPU {', '.join(map(str, integrated))} is integrated, and part of 'all'",
        fix=f"ask for the cards: AMD_VISIBLE_DEVICES={chosen}",
    )
