"""Does sudo find amd-ctk?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "sudo looks for programs in the directories of its secure_path only"
PLACE = "how-to/install.md"


def check(facts: Facts) -> Finding | None:
    """Judge whether the directory of this program is one of sudo's."""
    toolkit = facts.toolkit
    if not toolkit.secure_path or not toolkit.program_directory:
        return None
    if toolkit.program_directory in toolkit.secure_path:
        return ok("sudo finds amd-ctk")
    words, fix = f"sudo does not look in {toolkit.program_directory}", f"sudo {toolkit.program_directory}/amd-ctk ..."
    # Programs of a virtual environment are called by their path anyway.
    return note(words, fix=fix) if toolkit.is_virtual_environment else bad(words, fix=fix)
