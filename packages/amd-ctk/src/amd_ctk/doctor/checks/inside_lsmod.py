"""Does the image lack lsmod, which rocminfo asks?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad
from amd_ctk.doctor.inside.tried import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "rocminfo of earlier ROCm says 'ROCk module is NOT loaded' where it finds no lsmod, and ends"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Judge images whose rocminfo calls lsmod; later ones read /sys."""
    if facts.inside is None or not facts.inside.image.asks_lsmod or facts.inside.image.has_lsmod:
        return None
    words = f"rocminfo in {name_of(facts)} ends, because there is no lsmod: the module is loaded"
    return bad(words, fix="install kmod in the image")
