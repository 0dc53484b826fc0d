"""Are AMD's packages installed whole, and for this release?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "a package that was refused half-way leaves a driver or a program out; apt refuses what is for another release"
PLACE = "how-to/install.md#from-packages"


def check(facts: Facts) -> Finding | None:
    """Judge the state of packages, and the release that apt gets them for."""
    packages = facts.packages
    if packages.broken:
        return bad(packages.broken[0], fix="sudo dpkg --configure -a && sudo apt-get --fix-broken install")
    if packages.foreign_sources:
        return note(packages.foreign_sources[0], fix="name this host's release there, if AMD has packages for it")
    return ok("AMD's packages are installed whole") if packages.has_any else None
