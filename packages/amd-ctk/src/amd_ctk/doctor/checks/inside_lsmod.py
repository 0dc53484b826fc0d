"""Does the image lack lsmod, which rocminfo asks?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, note
from amd_ctk.doctor.inside.tried import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "rocminfo says 'ROCk module is NOT loaded' where it finds no lsmod, whatever the driver does"
PLACE = "how-to/troubleshoot.md#no-message-and-no-gpu"


def check(facts: Facts) -> Finding | None:
    """Say that it is no fault."""
    if facts.inside is None or not facts.inside.image.has_rocm or facts.inside.image.has_lsmod:
        return None
    words = f"{name_of(facts)} has no lsmod: rocminfo says that the module is not loaded"
    return note(words, fix="ignore the sentence, or install kmod in the image")
