"""Are Podman's files what Podman understands, and is the program there that they name?"""

from __future__ import annotations

from amd_ctk.doctor.finding import Finding, bad, note, ok

TYPE_CHECKING = False
if TYPE_CHECKING:
    from amd_ctk.doctor.facts.all import Facts

ENGINE = "podman"
WHY = "Podman starts nothing with a broken file, and no container under a runtime that is not there"
PLACE = "how-to/configure-engines.md"
CONFIGURE = "sudo amd-ctk runtime configure --runtime=podman"


def check(facts: Facts) -> Finding | None:
    """Judge what containers.conf and its drop-ins say of the AMD runtime."""
    podman = facts.podman
    if not podman.is_installed:
        return None
    if podman.files.problem:
        path = podman.files.problem.partition(": ")[0]
        return bad(f"Podman cannot read {podman.files.problem}", fix=f"correct {path}, and try it with: podman info")
    if podman.files.missing_program:
        return bad(f"containers.conf names {podman.files.missing_program}, which is not there", fix=CONFIGURE)
    if not podman.files.runtimes:
        return note("Podman has no runtime amd; '--device amd.com/gpu=0' works without", fix=CONFIGURE)
    return ok(f"Podman has the runtime {podman.files.runtimes[-1]}")
