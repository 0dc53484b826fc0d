"""Are the toolkit's settings understood?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

WHY = "settings that mean nothing stop every start"
PLACE = "reference/config.md"


def check(facts: Facts) -> Finding | None:
    """Judge config.toml and its compiled form."""
    toolkit = facts.toolkit
    if toolkit.settings_problem:
        return bad(toolkit.settings_problem, fix="amd-ctk config show, then correct the file")
    if not toolkit.is_compiled:
        return note("config.toml was changed since it was compiled", fix="sudo amd-ctk config compile")
    if toolkit.group_problems:
        return note(f"gpu-groups: {toolkit.group_problems[0]}", fix="amd-ctk config show gpu-groups, then correct it")
    if toolkit.visible_devices_env != "always":
        return note(f"visible-devices-env is {toolkit.visible_devices_env}: variables may give no GPU")
    return ok("the settings are understood")
