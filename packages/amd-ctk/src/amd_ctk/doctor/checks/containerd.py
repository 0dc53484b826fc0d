"""Is config.toml of containerd understood, and is the program there that it names?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "containerd"
WHY = "containerd does not start with a broken file, and starts no container under a runtime that is not there"
PLACE = "how-to/configure-engines.md"


def check(facts: Facts) -> Finding | None:
    """Judge what the files say of the AMD runtime."""
    containerd = facts.containerd
    if containerd.problem:
        path = containerd.problem.partition(": ")[0]
        fix = f"correct {path}, and try it with: containerd config dump"
        return bad(f"containerd cannot read {containerd.problem}", fix=fix)
    if containerd.missing_program:
        words = f"config.toml of containerd names {containerd.missing_program}, which is not there"
        return bad(words, fix="sudo amd-ctk runtime configure --runtime=containerd")
    return ok(f"containerd has the runtime {containerd.runtimes[-1]}") if containerd.runtimes else None
