"""Is this Linux on Windows?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "WSL has /dev/dxg in place of /dev/kfd, and this toolkit hands out the latter"
PLACE = "reference/support.md#systems"


def check(facts: Facts) -> Finding | None:
    """Judge whether the kernel is Microsoft's."""
    if not facts.kernel.is_windows:
        return None
    return bad("this is WSL: it has /dev/dxg and no /dev/kfd", fix="run Docker Engine on Linux")
